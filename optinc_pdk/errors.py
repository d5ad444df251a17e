"""Base class of all errors that an unusable input causes, and the form in which text of files is shown."""

import json

MAX_MESSAGE = 2000
"""Largest number of characters of a message. Names in an input may be as long as the input."""
_KEPT_END = 500


class InputError(ValueError):
    """An input of the user cannot be used; the message names the input, the fault and the remedy.

    Args:
        message: The message. Characters that are not printable are replaced by their escapes, and the middle of a
            message longer than ``MAX_MESSAGE`` is left out: it begins with the file and ends with the remedy.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(_shortened(printable(message)))


class ArgumentError(InputError):
    """An argument of a function cannot be used that is an option of the command line.

    Args:
        name: Name of the argument.
        text: What follows the name in the message.

    Attributes:
        option_message: The message with the name of the option.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name.replace('_', ' ')} {text}")
        self.option_message = str(InputError(f"--{name.replace('_', '-')} {text}"))


def _shortened(text: str) -> str:
    if len(text) <= MAX_MESSAGE:
        return text
    gap = f" … {len(text) - MAX_MESSAGE:,} characters … "
    return text[: MAX_MESSAGE - _KEPT_END - len(gap)] + gap + text[-_KEPT_END:]


def printable(text: str) -> str:
    """Return text in which every character that is not printable is replaced by its escape in JSON; newlines remain.

    Escape sequences and direction marks in a name would act on a terminal. JSON has the same meaning afterwards.
    """
    return "\n".join(map(printable_line, text.split("\n")))


def printable_line(text: str) -> str:
    """Return text as :func:`printable` does, but escape newlines, so that a name never looks like a line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
