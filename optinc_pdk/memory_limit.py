"""Memory of this machine, and the refusal of work that needs more."""

from __future__ import annotations

import os
from pathlib import Path

from optinc_pdk.errors import InputError

CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def machine_memory_gb() -> float:
    """Return the memory in GB that a process can use: the least of the machine's, the cgroup's and the limit of ulimit.

    Returns:
        Memory in GB; infinite if the system does not state any.
    """
    limits = [float("inf")]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(float(os.sysconf("SC_PHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE")))
    for path in CGROUP_LIMITS:
        text = path.read_text().strip() if path.is_file() else ""
        if text.isdigit():
            limits.append(float(text))
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return min(limits) / 1e9
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY:
        limits.append(float(soft))
    return min(limits) / 1e9


def refuse_beyond_memory(needed_gb: float, work: str, remedy: str) -> None:
    """Raise an error if work needs more memory than the machine has.

    Args:
        needed_gb: Estimated peak in GB.
        work: What needs it, for the message.
        remedy: What to do instead.

    Raises:
        InputError: The estimate exceeds the memory.
    """
    available = machine_memory_gb()
    if needed_gb > available:
        raise InputError(
            f"{work} needs about {needed_gb:.1f} GB of memory, this machine has {available:.1f} GB; {remedy}"
        )
