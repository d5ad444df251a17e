"""Calibration in the loop: bench interface and virtual bench, measurement of a chip on it, digital twin, and tuning."""
