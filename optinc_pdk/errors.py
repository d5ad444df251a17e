"""Base class of all errors about a user's input."""


class InputError(ValueError):
    """A user's input is unusable; the message names it, the fault and the remedy."""
