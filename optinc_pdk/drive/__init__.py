"""Heater drive: phase, power, pad voltage and DAC code; thermal crosstalk; shared grounds."""

from optinc_pdk.drive.crosstalk import CrosstalkOperator, DenseCrosstalk, DistanceCrosstalk, compensate
from optinc_pdk.drive.ground import Ground
from optinc_pdk.drive.heaters import MAX_DAC_BITS, Drive, Heater, RangeError, currents, drive, readback

__all__ = [
    "MAX_DAC_BITS",
    "CrosstalkOperator",
    "DenseCrosstalk",
    "DistanceCrosstalk",
    "Drive",
    "Ground",
    "Heater",
    "RangeError",
    "compensate",
    "currents",
    "drive",
    "readback",
]
