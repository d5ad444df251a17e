"""Networks that average exactly, in closed form: integer programs, their layers, and proofs of exactness."""
