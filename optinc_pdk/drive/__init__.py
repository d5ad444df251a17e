"""Heater drive: conversion between phase, power, pad voltage and DAC code; thermal crosstalk; shared grounds."""

from optinc_pdk.drive._heaters import (
    MAX_DAC_BITS,
    Drive,
    HeaterArray,
    RangeError,
    SharedGround,
    drive_heaters,
    heater_currents,
    readback,
)
from optinc_pdk.drive.crosstalk import CrosstalkOperator, DenseCrosstalk, DistanceCrosstalk, compensate
from optinc_pdk.validation import validate_api

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
    "drive_heaters",
    "heater_currents",
    "readback",
]

validate_api(__name__)
