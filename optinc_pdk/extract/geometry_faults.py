"""Layouts whose polygons KLayout's geometry engine cannot process."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from optinc_pdk.extract.size_limits import GdsError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def refusing_geometry(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Wrap a function of a layout file so that a failed assertion of KLayout's geometry engine refuses the file.

    Args:
        function: Function whose first argument is the path of a layout file.

    Returns:
        A function that raises a :class:`GdsError` in place of the engine's ``RuntimeError``.
    """

    @wraps(function)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except RuntimeError as fault:
            if not str(fault).startswith("Internal error: "):
                raise
            path = args[0] if args else kwargs.get("gds_path")
            raise GdsError(
                f"{path}: KLayout cannot process its polygons ({fault}); draw again shapes whose coordinates are far "
                "apart, or that cross themselves"
            ) from fault

    return guarded
