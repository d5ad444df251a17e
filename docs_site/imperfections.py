"""Tables of a process's imperfections and noise, with the source of every number."""

from __future__ import annotations

from optinc_pdk.cards import load_process
from optinc_pdk.cards.quantity import quantities
from optinc_pdk.errors import InputError

MARK = "<!-- The site lists the numbers of soi220 here. -->"
"""What the tables replace on the page docs/imperfections.md."""
NOISE = """
## Noise

The kinds `laser` and `detector` describe noise during operation, not properties of a fabricated chip. They apply only
if noise is requested. `optinc_pdk/simulate/transmission/noise.py` defines the parameters.
"""


def tables(name: str = "soi220") -> str:
    """Return the tables as Markdown.

    Args:
        name: Process whose card has imperfections and noise.

    Raises:
        InputError: The card lacks one of these sections.
    """
    process = load_process(name)
    if process.imperfections is None or process.noise is None:
        raise InputError(f"process {name!r} has no 'imperfections' or no 'noise' in its card; add them")
    lines = ["| kind | parameter | value | meaning | source |", "|---|---|---|---|---|"]
    used: dict[str, None] = {}
    for kind in type(process.imperfections).model_fields:
        section = getattr(process.imperfections, kind)
        for key, field in type(section).model_fields.items():
            value = getattr(section, key)
            used[value.source] = None
            lines += [f"| {kind} | `{key}` | {float(value):g} | {field.description} | {value.source} |"]
    lines += [NOISE]
    lines += ["| parameter | value | source |", "|---|---|---|"]
    for key, value in quantities(process.noise, ""):
        used[value.source] = None
        lines += [f"| `{key}` | {float(value):g} | {value.source} |"]
    return "\n".join([*lines, "", "## Sources", "", *(f"- **{key}**: {process.sources[key]}" for key in used), ""])
