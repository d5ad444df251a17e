"""JSON text: plain values, and refusal of what JSON leaves open."""

import pytest

from optinc_pdk.io.json_files import json_text, parse_json


def test_plain_values_are_read() -> None:
    assert parse_json(b'{"a": [1, 2.5, "x", null, true]}') == {"a": [1, 2.5, "x", None, True]}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ('[{"a": {"b": 1, "c": 2, "b": 3}}]', "duplicate key 'b'"),
        ("[NaN]", "NaN is not a number"),
        ("[-Infinity]", "-Infinity is not a number"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "digits"),
        (b"\xff\xfe", "decode|Expecting"),
        ("", "Expecting"),
    ],
)
def test_other_text_is_refused(text: str | bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parse_json(text)


def test_written_text_is_read_back_and_has_no_character_that_acts_on_a_terminal() -> None:
    data = {"\x9b\x7f": ["\x1b[31m µ\u202e\n", 1.5, None, "\U000e0001"]}
    text = json_text(data)
    assert parse_json(text) == data
    assert all(line.isprintable() for line in text.split("\n")) and "µ" in text and text.endswith("}\n")
