"""Validation of arguments and fields by their annotations."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments, validate_fields, validate_type


@validate_arguments
def average(bits: int, scale: float = 1.0, file: str | Path | None = None) -> tuple[type, object]:
    return type(bits), file


@dataclass(frozen=True)
class Numbers:
    values: tuple[int, ...]
    exact: bool = True

    def __post_init__(self) -> None:
        validate_fields(self)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: average(8.0), "average: bits = 8.0: give a whole number"),
        (lambda: average(True), "average: bits = True: give a whole number"),
        (lambda: average("8"), "average: bits = '8': give a whole number"),
        (lambda: average(bits=np.float64(8)), "average: bits = np.float64\\(8.0\\): give a whole number"),
        (lambda: average(8, "1"), "average: scale = '1': give a number"),
        (lambda: average(8, scale=False), "average: scale = False: give a number"),
        (lambda: average(8, file=3), "average: file = 3: give text or a path or None"),
        (lambda: Numbers(3), "Numbers: values = 3: give a tuple, each of it a whole number"),
        (lambda: Numbers((1, 2.5)), "Numbers: values = 2.5: give a whole number"),
        (lambda: Numbers((1,), 0), "Numbers: exact = 0: give True or False"),
        (
            lambda: validate_type("layer", 5, tuple[ArrayLike, ArrayLike]),
            "layer = 5: give a tuple, each of it a number, or an array of numbers",
        ),
        (lambda: validate_type("axis", "z", Literal["x", "y"]), "axis = 'z': give x or y"),
        (lambda: validate_type("table", [1], NDArray[np.int16]), r"table = \[1\]: give an array of int16"),
    ],
)
def test_other_types_are_refused_with_the_arguments_name(call, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        call()


def test_valid_values_pass():
    assert average(np.int64(8), 2, Path("a")) == (int, Path("a"))
    assert average(8, scale=np.float32(0.5)) == (int, None)
    assert Numbers([1, np.int8(2)]).values == (1, 2)
    table = np.zeros(3, np.int16)
    assert validate_type("table", table, NDArray[np.int16]) is table
    assert validate_type("anything", "x", object) == "x"


def test_missing_and_unknown_arguments_raise_pythons_errors():
    with pytest.raises(TypeError, match="missing a required argument"):
        average()
    with pytest.raises(TypeError, match="unexpected keyword"):
        average(8, digits=3)  # type: ignore[call-arg]


def test_long_values_are_cut() -> None:
    wrong: Any = list(range(10_000))
    with pytest.raises(InputError) as caught:
        average(wrong)
    assert len(str(caught.value)) < 100
