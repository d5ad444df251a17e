"""Calibration in the loop: a bench, and what measures and tunes a chip on it."""
