"""Electrical check: wiring, ground rise and current density of a written layout at a bias."""
