"""Sign-off: everything that judges a written GDS."""
