"""Build and check of a cascade: two levels of chips that average the words of N² servers."""

from optinc_pdk.cascade_build.pipeline import CASCADE_STAGES, RANDOM_SETS, CascadeBuild, build_cascade
from optinc_pdk.cascade_build.plan import CascadePlan
from optinc_pdk.validation import validate_api

__all__ = ["CASCADE_STAGES", "RANDOM_SETS", "CascadeBuild", "CascadePlan", "build_cascade"]

validate_api(__name__)
