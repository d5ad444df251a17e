"""Options that the command line and Python share: what can be chosen, and the records of `build` and `reprogram`.

Every option is declared once, with its description. It becomes a field of a record in Python and an option of the
commands that take the record. Nothing here imports NumPy, so that ``--help`` is fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, dataclass_transform, get_args

from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optinc_pdk.networks import AveragingNetwork

    # by the class's own name, which validation compares where NumPy is not imported
    ndarray = NDArray[Any]
    Rows = Sequence[Any]
    Data = str | Path | ndarray | Rows
    """What the chip of a general network is checked with: a file, inputs, or inputs with labels or outputs."""
else:
    Rows = Sequence

Activation = Literal["relu", "clipped_relu", "sine"]
UPPER_LIMIT: Final[dict[Activation, float | None]] = {"relu": None, "clipped_relu": 1.0, "sine": 1.0}
"""Largest signal of each activation, which is 0 below 0; None for no limit. A modulator limits its amplitude to 1."""
ACTIVATION_NAMES: Final[dict[Activation, str]] = {
    "relu": "ReLU",
    "clipped_relu": "clipped ReLU (0 to 1)",
    "sine": "sine of a modulator (0 to 1)",
}
"""Activations as tables and pages name them."""
Link = Literal["direct", "neurons"]
Receivers = Literal["photodiodes", "coherent"]
MeshKind = Literal["rectangle", "triangle"]
MatrixReading = Literal["field", "real", "power"]
"""What is read at the outputs of a matrix: their fields, the real parts of the fields, or their powers."""
Budget = Literal["size", "pads", "power", "loss", "rate"]
"""A budget of a process, by its name in reports and for ``accept``."""
BUDGETS: Final[tuple[Budget, ...]] = get_args(Budget)

DEFAULT_PROCESS = "soi220"

MOST = 10**9
"""Largest number of samples, steps or words of one command: at a microsecond each, a quarter of an hour."""
LARGEST_SEED = 2**63 - 1

RecordT = TypeVar("RecordT")


def option(*, text: str, python: str = "", default: Any = MISSING, **shown: Any) -> Any:
    """Return a field of a record of options.

    Args:
        text: What the option says, for the help of commands and for the record's docstring.
        python: What else it can be in Python, for the docstring alone.
        default: Default of the field; without one, the field is required.
        shown: How the command line takes it, if not by the field's type: ``given``, a type, with ``parse``, a function
            that converts it; ``flag``, its name; ``argument=True`` for an argument, ``hidden=True`` to leave it to
            Python; everything else is an argument of ``typer.Option``.
    """
    return field(default=default, metadata={"text": text, "python": python, **shown})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option,))
def record(cls: type[RecordT]) -> type[RecordT]:
    """Make a class a record of options, whose docstring describes every field."""
    cls.__post_init__ = _check_values  # type: ignore[attr-defined]
    made = dataclass(frozen=True, eq=False, kw_only=True)(cls)
    described: tuple[Field[Any], ...] = fields(made)  # type: ignore[arg-type]
    lines = (f"    {one.name}: {one.metadata['text']} {one.metadata['python']}".rstrip() for one in described)
    made.__doc__ = "\n".join((cleandoc(made.__doc__ or ""), "", "Attributes:", *lines))
    return made


def unchecked(record_type: type[RecordT], values: Mapping[str, Any]) -> RecordT:
    """Return a record of values that the command line has converted; checking their types would import NumPy."""
    made = object.__new__(record_type)
    for one in fields(record_type):  # type: ignore[arg-type]
        object.__setattr__(made, one.name, values.get(one.name, one.default))
    return made


def _check_values(made: Any) -> None:
    """Check types and limits of the fields of a record.

    Raises:
        InputError: One of them is out of range, or of another type.
    """
    from optinc_pdk.validation import validate_fields

    validate_fields(made, nan=False)
    for one in fields(made):
        value, low, high = getattr(made, one.name), one.metadata.get("min"), one.metadata.get("max")
        if value is None or ((low is None or value >= low) and (high is None or value <= high)):
            continue
        limits = f"{low:g} or more" if high is None else f"{low:,} to {high:,}"
        raise InputError(f"{type(made).__name__}: {one.name} = {value}: give {limits}")


def accepted_budgets(text: str) -> tuple[Budget, ...]:
    """Parse names of budgets, separated by commas; none in an empty text.

    Raises:
        InputError: A name is no budget.
    """
    names = [name.strip() for name in text.split(",")] if text else []
    for name in names:
        if name not in BUDGETS:
            raise InputError(f"--accept {text}: {name!r} is no budget; give names out of {', '.join(BUDGETS)}")
    return tuple(budget for budget in BUDGETS if budget in names)


WEIGHT_FILES = ".npz, .safetensors, .onnx or .pt"
"""Files of a network, for help and messages."""
MATRIX_FILES = ".npy, .npz with one array, .mat, .csv or .txt"
"""Files of a matrix, for help and messages."""
PROCESS = "Process: its name, or a folder with process cards such as ./mine."
ACCEPT = (
    "Budgets of the process that a chip may miss, separated by commas: size, pads, power, loss, rate. The verdict "
    "lists those that it misses."
)


@record
class SampleOptions:
    """Samples with which the chip of a general network is checked; None for the default."""

    data: str | Path | ndarray | Rows | None = option(
        default=None,
        text="For a general network: data to check the chip with, a .npz file with inputs x, and labels or outputs y. "
        "Default: random inputs within the range of the network.",
        python="In Python also inputs (S, K), or a tuple of inputs and labels (S,) or outputs (S, M).",
        given=Path,
    )
    agreement: float | None = option(
        default=None,
        text="For a general network: smallest accepted share of samples on which chip and network agree. Default: "
        "0.999.",
    )


@record
class LimitOptions(SampleOptions):
    """What the chip of a general network is checked with; None for the default."""

    tolerance: float | None = option(
        default=None,
        text="For a matrix: largest accepted error of an entry, relative to the largest entry. For a general network "
        "without labels: largest accepted deviation of an output, relative to the largest. Default: 0.01.",
    )
    accuracy: float | None = option(
        default=None,
        text="For a general network and data with labels: smallest accepted share of samples that the chip classifies "
        "correctly. Default: the accuracy in the weight file's card, less 1 - agreement; none if the card states none.",
    )


@record
class CheckOptions(LimitOptions):
    """What the chip of a matrix or of a general network is checked with; None for the default."""

    read: MatrixReading | None = option(
        default=None,
        text="For a matrix: what is read at the outputs. field: their fields, with a phase shifter at every output; "
        "real: the real parts of a real matrix, with homodyne receivers; power: their powers, with photodiodes. "
        "Default: field; for an existing chip what the report beside the layout states, and without a report field, or "
        "power where the chip has no such phase shifters.",
    )


@record
class LinkOptions:
    """Process of a chip, and how its outputs reach the servers."""

    process: str | Path = option(default=DEFAULT_PROCESS, text=PROCESS, given=str)
    link: Link | None = option(
        default=None,
        text="How the outputs reach the servers: direct, as light of the last layer; neurons, as light of one more "
        "modulator for each output. Default: that of the process.",
    )


@record
class MeshOptions:
    """Meshes of a matrix; None for the default."""

    mesh: MeshKind | None = option(
        default=None,
        text="For a matrix: shape of its meshes. A triangle has almost twice the columns, and so more loss. Default: "
        "rectangle.",
    )
    extra_columns: int | None = option(
        default=None,
        text="For a matrix: redundant columns of MZIs behind each mesh, with which it reaches splittings that its "
        "couplers alone cannot. Default: 0.",
        min=0,
        max=64,
    )


@record
class SizeOptions(LinkOptions, MeshOptions):
    """What determines the size of a chip."""


@record
class ProgramOptions(LinkOptions, CheckOptions):
    """Options of programming an existing chip."""

    activation: Activation | None = option(
        default=None,
        text="Activation of the hidden layers of a weight file that does not state it: relu, clipped_relu for "
        "Hardtanh(0, 1), or sine for the sine of a modulator.",
    )
    name: str | None = option(
        default=None,
        text="Name of the files: 1 to 32 letters, digits and underscores. Default: the stem of the weight file.",
    )
    receivers: Receivers | None = option(
        default=None,
        text="How the servers detect the outputs: photodiodes, their power; coherent, their field with a local "
        "oscillator. Default: that of the process.",
    )
    accept: Sequence[Budget] = option(default=(), text=ACCEPT, given=str, parse=accepted_budgets, metavar="NAMES")


@record
class BuildOptions(ProgramOptions, MeshOptions):
    """Options of a build.

    Examples:
        >>> import optinc_pdk as op
        >>> op.BuildOptions(process="soi220_flipchip", accept=["rate"]).accept
        ['rate']
    """

    input_amplitudes: Sequence[float] | None = option(
        default=None,
        text="For averages: amplitude of level 3 of each symbol in the input fibres, most significant first; 1 is the "
        "carrier's amplitude in its fibre. Default: the largest value of any input has amplitude 1.",
        hidden=True,
    )
    port_metadata: bool = option(
        default=False,
        text="Write kfactory's metadata about ports into the layout too, for programs that read ports; no check reads "
        "it.",
    )


@record
class CascadeOptions:
    """Options of a cascade of two levels of chips."""

    bits: int | None = option(default=None, text="Bits of a word; even. Default: those of .npz weights.")
    servers: int | None = option(
        default=None, text="Number of servers N of one chip; the cascade has N². Default: that of .npz weights."
    )
    first: str | Path | AveragingNetwork | None = option(
        default=None,
        text="Weight file of level 1. Default: comparators in closed form.",
        python="In Python also a network.",
        given=Path,
    )
    second: str | Path | AveragingNetwork | None = option(
        default=None,
        text="Weight file of level 2. Default: comparators in closed form.",
        python="In Python also a network.",
        given=Path,
    )
    name: str | None = option(
        default=None, text="Name: 1 to 25 letters, digits and underscores. Default: it states bits and servers."
    )
    process: str | Path = option(default=DEFAULT_PROCESS, text=PROCESS, given=str)
    random_sets: int = option(
        default=100_000,
        text="Number of random sets of N² words that are checked beside the corner cases.",
        flag="--words",
        min=0,
        max=MOST,
    )
    seed: int = option(default=0, text="Seed of the random words, from 0.", min=0, max=LARGEST_SEED)
    loss_db: float = option(
        default=0.0, text="Loss of a fibre between the levels in dB, with its connectors.", flag="--loss", min=0.0
    )
    accept: Sequence[Budget] = option(default=(), text=ACCEPT, given=str, parse=accepted_budgets, metavar="NAMES")
