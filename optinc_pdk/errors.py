"""Base class of all errors that an unusable input causes."""


class InputError(ValueError):
    """An input of the user cannot be used; the message names the input, the fault and the remedy."""
