"""Transmission of words through chip and board: detection, electronics, saturation, noise."""
