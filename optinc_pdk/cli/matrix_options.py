"""Options that describe a matrix or a network: those of the other one are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from optinc_pdk.errors import InputError


def is_matrix(weights: Path) -> bool:
    """Return whether a file contains a matrix, not a network.

    Raises:
        InputError: The file cannot be read.
    """
    from optinc_pdk.matrices.target import is_matrix_file

    return is_matrix_file(weights)


def refuse_for_matrix(weights: Path | None, options: Mapping[str, object]) -> None:
    """Check that no option of a network is given for a matrix.

    Args:
        weights: File of the matrix.
        options: Values by name of the option, each possibly None.

    Raises:
        InputError: One of them is given.
    """
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(f"{weights}: contains a matrix, for which {', '.join(given)} has no effect; drop it")


def refuse_for_network(weights: Path | None, options: Mapping[str, object]) -> None:
    """Check that no option of a matrix is given for a network; the opposite of `refuse_for_matrix`."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(
            f"{weights or 'the bundled network'}: {', '.join(given)}: for a matrix, and this is a network; drop it, or "
            "give a .npy file, or a .npz file with one array"
        )
