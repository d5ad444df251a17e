"""Base class of all errors that an unusable input causes."""

MAX_MESSAGE = 2000
"""Largest number of characters of a message. Names in an input may be as long as the input."""
_KEPT_END = 500
# Escape sequences and direction marks in a name would act on the terminal.
_NEWLINE = "\n"


class InputError(ValueError):
    """An input of the user cannot be used; the message names the input, the fault and the remedy.

    Args:
        message: The message. Characters that are not printable are replaced by their escapes, and the middle of a
            message longer than ``MAX_MESSAGE`` is left out: it begins with the file and ends with the remedy.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(_shortened(_printable(message)))


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


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == _NEWLINE else c.encode("unicode_escape").decode() for c in text)


def _shortened(text: str) -> str:
    if len(text) <= MAX_MESSAGE:
        return text
    gap = f" … {len(text) - MAX_MESSAGE:,} characters … "
    return text[: MAX_MESSAGE - _KEPT_END - len(gap)] + gap + text[-_KEPT_END:]
