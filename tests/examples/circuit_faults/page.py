"""Page of the circuits and of what finds their faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PICTURES = {"wdm_rings": "Demultiplexer of four rings", "ten_filters": "Cell used ten times"}
HEAD = """\
# Circuits drawn in gdsfactory

[examples/circuits](../examples/circuits) has circuits as an engineer draws them: plain gdsfactory code of at most 40
lines each, with the cells of this PDK. A script writes a layout and the netlist that gdsfactory extracts from it:

```
python examples/circuits/wdm_rings.py        # writes wdm_rings.gds and wdm_rings.pic.yml
optinc drc wdm_rings.gds
optinc lvs wdm_rings.gds wdm_rings.pic.yml
optinc simulate wdm_rings.gds wdm_rings.pic.yml --wavelengths 1545:1555:0.1
optinc verify wdm_rings.gds wdm_rings.pic.yml  # all of them, with one report
```

| script | circuit | lines | devices | nets |
|---|---|---|---|---|
"""
FAULT_TEXT = """
All pass; the two dies of `two_dies.py`, smaller than any that is offered, have a warning of `chip.size` each. Their
S-parameters are those of SAX to 1e-9 (`tests/examples/test_circuits.py`): SAX simulates gdsfactory's netlist with its
hierarchy (`optinc_pdk.models.sax_schematic`), and the extracted circuit (`sax_netlist`). Both differ by less than
0.05, because lengths in the netlist and corners in the layout are rounded to 1 nm.

## Faults

Three faults were made in each layout, in one place only, as somebody edits it in KLayout. The table states what finds
them:

- *Design rules*: the rules that are violated (`optinc drc`).
- *LVS*: the first kinds of differences (`optinc lvs`), and the instance as the netlist names it, if one is stated.
- *Simulation*: whether the extracted circuit cannot be simulated, or an S-parameter at 1545, 1550 or 1555 nm differs by
  more than 0.01 from that of the good layout, with heaters off.
- *KLayout*: whether KLayout's `NetlistComparer` finds that the extracted circuit differs from the netlist. It compares
  devices, connections and labels, and no lengths, gaps or widths.
- *Ports*: whether the netlist that kfactory makes of instances, their settings and ports (`KCell.netlist()`) differs
  from that of the good layout. Ports of guides that meet are connected; metal is extracted by KLayout. What is drawn
  inside a cell is not compared.

"""
TABLE = """\
| circuit | fault | design rules | LVS | simulation | KLayout | ports |
|---|---|---|---|---|---|---|
"""


def page(data: Mapping[str, Any]) -> str:
    """The page in Markdown, from the data of the study."""
    n = data["counts"]
    circuits = "".join(
        f"| [{name}.py](../examples/circuits/{name}.py) | {' | '.join(cells)} |\n" for name, *cells in data["circuits"]
    )
    pictures = "".join(f"\n![{text}](../docs/circuits_{name}.png)\n\n*{text}.*\n" for name, text in PICTURES.items())
    summary = (
        f"Of {n['faults']} faults, `optinc verify` finds {n['verify']}: LVS {n['lvs']}, design rules {n['rules']}. "
        f"KLayout's comparer finds {n['klayout']}; about devices, connections and labels it disagrees with LVS on "
        f"{n['apart']}. The netlists of ports miss {n['missed_by_ports']}. The place of every finding is tested.\n\n"
    )
    rows = "".join(f"| {' | '.join(cells)} |\n" for cells in data["faults"])
    return HEAD + circuits + pictures + FAULT_TEXT + summary + TABLE + rows
