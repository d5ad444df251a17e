"""Settings that every test shares."""

import matplotlib
from hypothesis import settings

matplotlib.use("Agg")

# The same examples on every run: a failure in one place is a failure everywhere.
settings.register_profile("optinc", derandomize=True, deadline=None)
settings.load_profile("optinc")
