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

_PLAIN = set(string.ascii_letters + string.digits + string.punctuation + " ") - set('"#\\')
# Ruby files in the order in which they are joined.
_PARTS = ("design", "checks", "density", "photonic_checks", "run")
_HEAD = """\
# Design rules of the process {process}, written by `optinc process deck`. Do not edit: change the process's rules.yml.
#
# In KLayout: put this file into the folder .klayout/drc; it is then under Tools > DRC, checks the layout that is shown
# and opens the browser of markers.
# In a shell: QT_QPA_PLATFORM=offscreen klayout -b -r optinc.lydrc -rd input=a.gds -rd report=a.lyrdb
"""


def macro_file(fields: Mapping[str, str], text: str) -> bytes:
    """Return a macro that has an entry in a menu.

    Args:
        fields: Properties of the macro, such as ``description``, which is the text of the entry, and ``menu-path``.
        text: The script.

    Returns:
        Content of the file; equal arguments give equal bytes.
    """
    macro = ElementTree.Element("klayout-macro")
    constant = {"version": "", "autorun": "false", "autorun-early": "false", "show-in-menu": "true"}
    for key, value in (constant | dict(fields) | {"text": text}).items():
        ElementTree.SubElement(macro, key).text = value
    ElementTree.indent(macro, " ")
    return bytes(ElementTree.tostring(macro, encoding="utf-8", xml_declaration=True)) + b"\n"


def ruby_literal(value: object) -> str:
    """Return plain data as a Ruby literal: mappings, sequences, texts, numbers, booleans and None."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{ruby_literal(key)} => {ruby_literal(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(ruby_literal, value)) + "]"
    if isinstance(value, str):
        # escape #, because Ruby executes the content of #{}
        return '"' + "".join(c if c in _PLAIN else f"\\u{{{ord(c):x}}}" for c in value) + '"'
    if value is None:
        return "nil"
    return str(value).lower() if isinstance(value, bool) else repr(value)


class DeckError(ValueError):
    """A rule is of a kind that the script cannot check."""


def deck_script(process: str, rules: Sequence[Rule], layers: Mapping[str, tuple[int, int]]) -> bytes:
    """Write the geometric rules of a process as a KLayout DRC script.

    Args:
        process: Name of the process.
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
        _table("LAYERS", "{}", [f"{ruby_literal(name)} => {ruby_literal(gds)}" for name, gds in layers.items()]),
        _table("RULES", "[]", [ruby_literal(_row(rule)) for rule in included]),
        _table("LEFT_OUT", "[]", [ruby_literal(_row(rule)) for rule in rules if rule not in included]),
    ]
    fields = {
        "description": f"optinc: design rules of {process}",
        "category": "drc",
        "group-name": "drc_scripts",
        "menu-path": "tools_menu.drc.end",
        "interpreter": "dsl",
        "dsl-interpreter-name": "drc-dsl-xml",
    }
    return macro_file(fields, "\n".join([*head, *parts]))


def _row(rule: Rule) -> dict[str, object]:
    """A rule's keys in the order of the card, with text and source replaced by a description."""
    return rule.model_dump(exclude={"text", "source"}) | {"description": description(rule)}


def _table(name: str, brackets: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{name} = {brackets[0]}", *(f"  {line}," for line in lines), f"{brackets[1]}\n"])
