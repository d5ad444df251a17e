"""Heater drive: phase, power, pad voltage and DAC code; thermal crosstalk; shared grounds."""

from optinc_pdk.drive.crosstalk import CrosstalkOperator, DenseCrosstalk, DistanceCrosstalk, compensate
from optinc_pdk.drive.ground import SharedGround
from optinc_pdk.drive.heaters import MAX_DAC_BITS, Drive, HeaterArray, RangeError, currents, drive_heaters, readback

__all__ = [
    "MAX_DAC_BITS",
    "CrosstalkOperator",
    "DenseCrosstalk",
    "DistanceCrosstalk",
    "Drive",
    "HeaterArray",
    "RangeError",
    "SharedGround",
    "compensate",
    "currents",
    "drive_heaters",
    "readback",
]
