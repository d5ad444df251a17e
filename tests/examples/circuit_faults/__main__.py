"""Writes docs/circuits.md: the circuits of examples/circuits, and which check finds which fault in their layouts."""

from __future__ import annotations

import ast
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from circuit_faults.faults import FAULTS
from circuit_faults.judges import Verdict, connects_differently, judge
from circuit_faults.layouts import FOLDER, PROCESS, draw, edited
from optinc_pdk.report.layout_pictures import layout_png

DOCS = FOLDER.parents[1] / "docs"
PICTURES = {"wdm_rings": "Demultiplexer of four rings", "ten_filters": "Cell used ten times"}
PIXELS = 1200
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


def main() -> None:
    """Draw, edit and check every circuit, and write the page with its pictures."""
    # gdsfactory warns of labels of its own PDK
    warnings.simplefilter("ignore")
    circuits: list[str] = []
    rows: list[str] = []
    verdicts: list[Verdict] = []
    for name, faults in FAULTS.items():
        print(name, file=sys.stderr)
        with TemporaryDirectory() as folder:
            drawn = draw(name, Path(folder))
            good = judge(drawn.gds, drawn)
            if not (good.checked.passed and good.comparer.match and good.same_by_ports and good.checked.lvs):
                raise SystemExit(f"{name} does not pass")
            text = (FOLDER / f"{name}.py").read_text()
            title = str(ast.get_docstring(ast.parse(text)))
            lvs = good.checked.lvs
            script = f"[{name}.py](../examples/circuits/{name}.py)"
            circuits.append(f"| {script} | {title} | {len(text.splitlines())} | {lvs.devices} | {lvs.nets} |")
            if name in PICTURES:
                png = layout_png(drawn.gds, PROCESS.gds_layers, width_px=PIXELS)
                (DOCS / f"circuits_{name}.png").write_bytes(png)
            for fault in faults:
                verdict = judge(edited(drawn, fault.edit, Path(folder)), drawn)
                verdicts.append(verdict)
                rows.append(f"| {name} | {fault.text} | {_cells(verdict, good, fault.instance)} |")
    (DOCS / "circuits.md").write_text(_page(circuits, rows, verdicts))


def _cells(verdict: Verdict, good: Verdict, instance: str) -> str:
    """Return the cells of a fault's row behind its description."""
    lvs = verdict.checked.lvs
    assert lvs is not None
    rules = [rule.id for rule in verdict.checked.drc.rules if rule.violations and rule.rule.severity == "error"]
    kinds = list(dict.fromkeys(each.kind for each in lvs.differences))[:3]
    named = f" at `{instance}`" if instance else ""
    found = (
        ", ".join(rules[:3]),
        ", ".join(kinds) + named if kinds else "",
        _mark(verdict.simulation_differs(good.checked)),
        _mark(not verdict.comparer.match),
        _mark(not verdict.same_by_ports),
    )
    return " | ".join(each or "–" for each in found)


def _mark(found: bool) -> str:
    """Return the text of a check that finds a fault or not."""
    return "found" if found else "–"


def _page(circuits: list[str], rows: list[str], verdicts: list[Verdict]) -> str:
    """Return the page."""
    missed = sum(each.same_by_ports for each in verdicts)
    rules = sum(not each.checked.drc.clean for each in verdicts)
    ours = sum(each.checked.lvs is not None and not each.checked.lvs.match for each in verdicts)
    klayout = sum(not each.comparer.match for each in verdicts)
    apart = sum(
        each.checked.lvs is not None and each.comparer.match is connects_differently(each.checked.lvs)
        for each in verdicts
    )
    pictures = "".join(f"\n![{text}](circuits_{name}.png)\n\n*{text}.*\n" for name, text in PICTURES.items())
    summary = (
        f"Of {len(verdicts)} faults, `optinc verify` finds {sum(not each.checked.passed for each in verdicts)}: "
        f"LVS {ours}, design rules {rules}. KLayout's comparer finds {klayout}; about devices, connections and labels "
        f"it disagrees with LVS on {apart}. The netlists of ports miss {missed}. The place of every finding is "
        "tested.\n\n"
    )
    end = "\nWritten by `make circuits` (`python -m circuit_faults` in `tests/examples`).\n"
    return HEAD + "\n".join(circuits) + "\n" + pictures + FAULT_TEXT + summary + TABLE + "\n".join(rows) + "\n" + end


if __name__ == "__main__":
    main()
