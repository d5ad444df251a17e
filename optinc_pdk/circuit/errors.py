"""Error of the package ``circuit``."""

from optinc_pdk.errors import InputError


class NetlistError(InputError):
    """A netlist, bias or board file is unusable; the message names the file, the fault and the remedy."""
