"""The command line, ``optinc``.

Every command imports what it needs inside its function, after it has checked its arguments and read the small input
files, so that help, usage errors and unusable files are answered at once.
"""

from optinc_pdk.cli import chip, networks, noise, signoff, spectrum, tolerance
from optinc_pdk.cli.app import main

__all__ = ["chip", "main", "networks", "noise", "signoff", "spectrum", "tolerance"]
