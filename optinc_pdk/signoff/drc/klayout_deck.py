"""The geometric design rules as a script for KLayout's application (.lydrc): an independent implementation.

The script consists of the rules of the process card as a table, and of the Ruby files in `ruby/` with one function for
each kind of rule. The checks are implemented there a second time; all numbers come from the table.
"""

from __future__ import annotations

import string
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path

from optinc_pdk.cards.rules import Rule
from optinc_pdk.signoff.drc.design_rule_check import ELECTRICAL_KINDS
from optinc_pdk.signoff.drc.marker_database import description

# Ruby files in the order in which they are joined.
_PARTS = ("design", "checks", "density", "photonic_checks", "run")
_HEAD = """\
# Design rules of the process {process}, written by `optinc deck`. Do not edit: change the process's rules.yml.
#
# In KLayout: put this file into the folder .klayout/drc; it is then under Tools > DRC, checks the layout that is shown
# and opens the browser of markers.
# In a shell: QT_QPA_PLATFORM=offscreen klayout -b -r optinc.lydrc -rd input=a.gds -rd report=a.lyrdb
"""
_PLAIN = set(string.ascii_letters + string.digits + string.punctuation + " ") - set('"#\\\\')


class DeckError(ValueError):
    """A rule is of a kind that the script cannot check."""


def deck_script(process: str, rules: Sequence[Rule], layers: Mapping[str, tuple[int, int]]) -> bytes:
    """Write the geometric rules of a process as a KLayout DRC script.

    Args:
        process: Name of the process.
        rules: Rules of the process.
        layers: GDS layer and datatype by layer name.

    Returns:
        Content of the .lydrc file; equal rules give equal bytes.

    Raises:
        DeckError: The script has no function for a kind of rule.
    """
    parts = [(Path(__file__).parent / "ruby" / f"{name}.rb").read_text(encoding="utf-8") for name in _PARTS]
    included = [rule for rule in rules if rule.kind not in ELECTRICAL_KINDS]
    for rule in included:
        if not any(f"def check_{rule.kind}(" in part for part in parts):
            raise DeckError(f"rule {rule.id!r}: the script has no check of kind {rule.kind!r}")
    head = [
        _HEAD.format(process=process),
        _table("LAYERS", "{}", [f"{_ruby(name)} => {_ruby(gds)}" for name, gds in layers.items()]),
        _table("RULES", "[]", [_ruby(_row(rule)) for rule in included]),
        _table("LEFT_OUT", "[]", [_ruby(_row(rule)) for rule in rules if rule not in included]),
    ]
    macro = ElementTree.Element("klayout-macro")
    for key, value in {
        "description": f"optinc: design rules of {process}",
        "version": "",
        "category": "drc",
        "autorun": "false",
        "autorun-early": "false",
        "show-in-menu": "true",
        "group-name": "drc_scripts",
        "menu-path": "tools_menu.drc.end",
        "interpreter": "dsl",
        "dsl-interpreter-name": "drc-dsl-xml",
        "text": "\n".join([*head, *parts]),
    }.items():
        ElementTree.SubElement(macro, key).text = value
    ElementTree.indent(macro, " ")
    return bytes(ElementTree.tostring(macro, encoding="utf-8", xml_declaration=True)) + b"\n"


def _row(rule: Rule) -> dict[str, object]:
    """A rule's keys in the order of the card, with text and source replaced by a description."""
    return rule.model_dump(exclude={"text", "source"}) | {"description": description(rule)}


def _table(name: str, brackets: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{name} = {brackets[0]}", *(f"  {line}," for line in lines), f"{brackets[1]}\n"])


def _ruby(value: object) -> str:
    """Plain data as a Ruby literal."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_ruby(key)} => {_ruby(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_ruby, value)) + "]"
    if isinstance(value, str):
        # escape #, because Ruby executes the content of #{}
        return '"' + "".join(c if c in _PLAIN else f"\\u{{{ord(c):x}}}" for c in value) + '"'
    if value is None:
        return "nil"
    return str(value).lower() if isinstance(value, bool) else repr(value)
