"""The command line. Every command imports what it needs itself, so that ``--help`` answers at once."""

from optinc_pdk.cli import chip, networks, noise, signoff, spectrum, tolerance
from optinc_pdk.cli.app import main

__all__ = ["chip", "main", "networks", "noise", "signoff", "spectrum", "tolerance"]
