"""Heater phases from DAC codes or labels, with thermal crosstalk between heaters as placed."""
