"""Error of the package ``circuit``."""

from optinc_pdk.errors import InputError


class NetlistError(InputError):
    """A netlist, bias or board cannot be used; the message names the file, the fault and the remedy."""
