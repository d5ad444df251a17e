"""Macro files of KLayout's application (.lym, .lydrc), and plain data as Ruby literals in them."""

from __future__ import annotations

import string
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping

_PLAIN = set(string.ascii_letters + string.digits + string.punctuation + " ") - set('"#\\')


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
