"""Error of the package ``cards``."""

from optinc_pdk.errors import InputError


class CardError(InputError):
    """A process or device card cannot be used; the message names the file, the key, the fault and the remedy."""
