"""Extraction of a circuit from the polygons and labels of a GDS2 or OASIS file.

Devices are recognised in `device_recognition` (by their golden polygons), `guide_couplers` and `phase_shifters`.
"""

from optinc_pdk.extract._extractor import Extraction, extract
from optinc_pdk.extract.faults import Fault
from optinc_pdk.extract.mask_layout import GdsError
from optinc_pdk.validation import validate_api

__all__ = ["Extraction", "Fault", "GdsError", "extract"]

validate_api(__name__)
