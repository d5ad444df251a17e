"""All commands of the command line: importing this module registers them with the application."""

from optinc_pdk.cli import (
    build_commands,
    chip_commands,
    eye_command,
    network_commands,
    noise_command,
    process_commands,
    signoff_commands,
    simulate_command,
    spectrum_command,
    verify_command,
    yield_command,
)
from optinc_pdk.cli.app import app

__all__ = [
    "app",
    "build_commands",
    "chip_commands",
    "eye_command",
    "network_commands",
    "noise_command",
    "process_commands",
    "signoff_commands",
    "simulate_command",
    "spectrum_command",
    "verify_command",
    "yield_command",
]
