"""The imperfections of a process as a page: ``make imperfections`` writes docs/imperfections.md."""

from __future__ import annotations

import sys
from pathlib import Path

from optinc_pdk.cards import Process, load_process
from optinc_pdk.files import InputError, write_atomic

HEAD = """# What no two chips have alike

Written by `make imperfections` from the `imperfections` and `noise` of the process card
`components/{name}/process.yml`, which are the numbers that `optinc yield` draws chips from.
Every kind has its own stream of random numbers: more of one kind does not move another, and a kind with the amount 0
changes nothing, to the last bit.

`rms` numbers are standard deviations of normal distributions. `spread` numbers are relative, the standard deviation
of the quantity's logarithm.
"""
NOISE = """
## Noise

Kinds `laser` and `detector` are no properties of a made chip but noise while it works; they count where noise is asked
for. `optinc_pdk/simulate/noise.py` says what its numbers mean.
"""
TAIL = """
## How a chip is drawn

- Places and lengths are those of the circuit extracted from the layout. A net's place is the middle between the
  devices that it joins; a guide of length L that is wider by w nm turns its light by `rad_per_nm` · w · L / 100 µm.
- Over the wafer, width and height are Gaussian random fields, expanded exactly in products of functions of x and of y
  (`optinc_pdk/tolerance/variation/field.py`). Along a guide they vary by themselves: its phase has the variance of
  ∫∫ exp(-((s - t) / correlation)²) ds dt over the guide, which is √π · correlation · L for long ones.
- Samples are of wafers of their own: chips of one wafer are more alike than this.
- Phases are those at the process's wavelength, and in proportion to 1 / wavelength at others.
- Errors of couplers and splitters are errors of the coupling angle, share = sin²(angle), which is the same number at
  50:50; other ratios vary less, and no share leaves 0 … 1.
- No device gets better than its reflections leave it passive, and a crossing's crosstalk is at most what it loses.
- Sampled devices come from their models with sampled parameters, so that each is passive and reciprocal. A device whose
  S-parameters come from a file has nothing to sample: its kind is refused until it is left out.
- Crosstalk shifts the guides under other heaters, at distances between the heaters' middles. What the card states is
  there on every chip: the bias that a build writes makes it good, and only its spreads, of the logarithm of the shares,
  are an imperfection. A chip without any has the card's shares.

## What is not drawn

- How couplers, splitters and crossings depend on the width and height of the silicon where they are: their errors are
  independent of each other and of the guides'.
- What a heater does to guides without heaters. Power per π is that of the difference between the arms of an
  interferometer, so that its own other arm is in that number; beside its neighbours' both arms the difference is less
  than the share of one, so the card's crosstalk is a bad case.
- That dies are apart: heaters of a chip of several dies warm each other as if they lay on one.
- Resistances of wires and grounds, which are as drawn; reflections; temperature of the whole chip; polarisation.
"""


def document(process: Process) -> str:
    """The page.

    Args:
        process: Process whose card has imperfections and noise.

    Raises:
        InputError: It has none.
    """
    if process.imperfections is None or process.noise is None:
        raise InputError(f"process {process.name!r} has no 'imperfections' or no 'noise' in its card; add them")
    lines = [HEAD.format(name=process.name)]
    lines += ["| kind | number | value | of what | source |", "|---|---|---|---|---|"]
    used: dict[str, None] = {}
    for kind in type(process.imperfections).model_fields:
        section = getattr(process.imperfections, kind)
        for key, field in type(section).model_fields.items():
            value = getattr(section, key)
            used[value.source] = None
            lines += [f"| {kind} | `{key}` | {float(value):g} | {field.description} | {value.source} |"]
    lines += [NOISE]
    lines += ["| number | value | source |", "|---|---|---|"]
    for key in type(process.noise).model_fields:
        value = getattr(process.noise, key)
        used[value.source] = None
        lines += [f"| `{key}` | {float(value):g} | {value.source} |"]
    lines += ["", "## Sources", "", *(f"- **{key}**: {process.sources[key]}" for key in used)]
    return "\n".join(lines) + "\n" + TAIL


if __name__ == "__main__":
    write_atomic(Path(sys.argv[1]), document(load_process()).encode())
