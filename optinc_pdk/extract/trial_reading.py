"""Trial reading of an OASIS file in a process of its own, whose computing time the operating system limits.

Some damaged repetitions keep KLayout's reader busy for hours, and nothing in this process could interrupt it. GDS2
files need no trial: their records are counted first (:mod:`optinc_pdk.extract.gds2_records`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from optinc_pdk.extract.size_limits import GdsError

MAX_SECONDS = 30
"""Limit of the computing time. The largest network laid out so far is read in one second."""

# Errors of the file are reported by the reading that follows. The limits hold from here on, so that the import counts.
_SCRIPT = """
import sys
try:
    import resource
except ImportError:  # Windows has no such limits
    sys.exit()
seconds, memory = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
import klayout.db as kdb
try:
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
except OSError:  # another system than Linux, or a container without /proc: only the time is limited
    size = 0
if size:
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
options = kdb.LoadLayoutOptions()
options.warn_level = 0
options.properties_enabled = False
try:
    kdb.Layout().read_bytes(sys.stdin.buffer.read(), options)
except (RuntimeError, UnicodeDecodeError):
    pass
"""


def check_reading_time(path: Path, data: bytes, max_memory: int) -> None:
    """Check that KLayout can read a file within ``MAX_SECONDS``.

    Args:
        path: OASIS file, for the message.
        data: Its content.
        max_memory: Bytes by which the reading process may grow.

    Raises:
        GdsError: The trial was ended by the limit, or by a crash of the reader, or could not be made.
    """
    # -P: a file in the current folder must not be imported in place of a package
    command = [sys.executable, "-P", "-c", _SCRIPT, str(MAX_SECONDS), str(max_memory)]
    quiet = subprocess.DEVNULL
    ended = subprocess.run(command, input=data, stdout=quiet, stderr=quiet, check=False).returncode
    if ended:
        how = f"signal {-ended}" if ended < 0 else f"exit code {ended}"
        raise GdsError(
            f"{path}: cannot be read within {MAX_SECONDS} s of computing time and {max_memory // 2**20} MiB ({how}); "
            "check the counts of its arrays, or write it as GDS2"
        )
