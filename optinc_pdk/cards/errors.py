"""The one error of this room."""

from optinc_pdk.files import InputError


class CardError(InputError):
    """A card that cannot be used; the message names the file, the key, the fault and the mend."""
