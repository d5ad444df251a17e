"""Networks to circuits, with every pad's and fibre's label."""

from optinc_pdk.assemble.chip import assemble, check_buildable, check_weights
from optinc_pdk.assemble.mesh import rectangular_slots

__all__ = ["assemble", "check_buildable", "check_weights", "rectangular_slots"]
