"""The one error of this room."""


class CardError(ValueError):
    """A card that cannot be used; the message names the file, the key, the fault and the mend."""
