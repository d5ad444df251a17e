"""The command line, ``optinc``.

Every command imports what it needs inside its function, after it has checked its arguments and read the small input
files, so that help, usage errors and unusable files are answered at once.
"""

from optinc_pdk.cli import (
    chip_commands,
    network_commands,
    noise_command,
    signoff_commands,
    spectrum_command,
    yield_command,
)
from optinc_pdk.cli.app import main

__all__ = [
    "chip_commands",
    "main",
    "network_commands",
    "noise_command",
    "signoff_commands",
    "spectrum_command",
    "yield_command",
]
