"""Messages of input errors: they can be printed on any terminal, and stay short."""

import pickle

import pytest

from optinc_pdk.circuit import NetlistError
from optinc_pdk.errors import MAX_MESSAGE, InputError


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b[31m", "\\u001b[31m"),
        ("\x9b31m\x7f", "\\u009b31m\\u007f"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud800", "\\ud800"),
        ("a\rb", "a\\rb"),
        ("µ é", "µ é"),
    ],
)
def test_characters_that_act_on_a_terminal_are_escaped(name: str, shown: str) -> None:
    assert str(InputError(f"file.yml: {name} is wrong")) == f"file.yml: {shown} is wrong"


def test_a_long_message_keeps_file_and_remedy() -> None:
    text = str(NetlistError(f"file.yml: {'x' * 10_000}; correct the name"))
    assert len(text) == MAX_MESSAGE
    assert text.startswith("file.yml: xxx") and text.endswith("xxx; correct the name")
    assert "characters" in text
    # an error that is raised again with more in front stays as short
    assert len(str(InputError(f"chip: {text}"))) == MAX_MESSAGE


def test_an_error_is_passed_between_processes() -> None:
    assert str(pickle.loads(pickle.dumps(NetlistError("a.yml: \x07")))) == "a.yml: \\u0007"
