"""Error of the package ``cards``."""

from optinc_pdk.errors import InputError


class CardError(InputError):
    """A card is unusable; the message names the file, the key, the fault and the remedy."""
