"""Chips in service: drift of heaters and temperature, words against time, and tracking with pilot words."""
