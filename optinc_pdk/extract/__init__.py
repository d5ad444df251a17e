"""GDS to circuit, from polygons alone."""

from optinc_pdk.extract.extractor import Extraction, extract
from optinc_pdk.extract.gds import GdsError
from optinc_pdk.extract.silicon import Fault

__all__ = ["Extraction", "Fault", "GdsError", "extract"]
