"""Named tensors of the files of torch.save: .pt, .pth, .bin, and the .ckpt of Lightning.

They are pickles. PyTorch reads them in a process of its own, without running what they contain.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from optinc_pdk.io.reading import WEIGHTS
from optinc_pdk.networks import _torch_reader
from optinc_pdk.networks.layers import WeightsError

ENDINGS = (".pt", ".pth", ".bin", ".ckpt")
_MAX_SECONDS = 120


def as_safetensors(path: Path, data: bytes) -> bytes:
    """Return the tensors of a file of torch.save as a .safetensors file whose header has them in their order.

    Raises:
        WeightsError: PyTorch is missing, or does not read the file without running code; the message has the command
            that converts it.
    """
    if find_spec("torch") is None:
        raise _unconverted(path, "is a file of PyTorch, which is not installed")
    # -P: a file in the folder of the script must not be imported in place of PyTorch
    command = [sys.executable, "-P", str(Path(_torch_reader.__file__)), str(WEIGHTS.max_bytes), WEIGHTS.remedy]
    try:
        ended = subprocess.run(command, input=data, capture_output=True, check=False, timeout=_MAX_SECONDS)
    except subprocess.TimeoutExpired as fault:
        raise _unconverted(path, f"cannot be read within {_MAX_SECONDS} s") from fault
    if ended.returncode == 0:
        return ended.stdout
    if ended.returncode not in (_torch_reader.UNUSABLE, _torch_reader.OBJECTS):
        raise _unconverted(path, f"PyTorch cannot read it (exit code {ended.returncode})")
    text = " ".join(ended.stdout.decode(errors="replace").split())
    if ended.returncode == _torch_reader.UNUSABLE:
        raise WeightsError(f"{path}: {text}")
    raise _unconverted(path, text)


def _unconverted(path: Path, reason: str) -> WeightsError:
    code = (
        "import torch; from safetensors.torch import save_file; "
        f'm = torch.load("{path.name}", map_location="cpu", weights_only=False); '
        'm = m.state_dict() if hasattr(m, "state_dict") else m.get("state_dict", m); '
        f'save_file(m, "{path.stem}.safetensors")'
    )
    return WeightsError(
        f"{path}: {reason}; if you trust it, convert it where PyTorch and its modules are installed: "
        f"{shlex.join(['python', '-c', code])}"
    )
