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
from optinc_pdk.networks.layers import WeightsError

ENDINGS = (".pt", ".pth", ".bin", ".ckpt")
_MAX_SECONDS = 120
_MAX_MEMORY = 4 * 2**30
_UNUSABLE, _OBJECTS = 3, 4
_SCRIPT = f"""
import io, json, re, sys
import torch

try:
    import resource
except ImportError:  # Windows has no such limits
    pass
else:
    resource.setrlimit(resource.RLIMIT_DATA, ({_MAX_MEMORY}, {_MAX_MEMORY}))
KINDS = {{torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}}


def end(code, text):
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.exit(code)


try:
    found = torch.load(io.BytesIO(sys.stdin.buffer.read()), map_location="cpu", weights_only=True)
except MemoryError:
    end({_UNUSABLE}, "needs more than {_MAX_MEMORY // 2**30} GiB of memory; save its tensors alone")
except Exception as fault:
    text = str(fault)
    name = re.search(r"GLOBAL (\\S+)|(TorchScript)", text)
    if name:
        end({_OBJECTS}, f"holds objects of Python ({{name[1] or name[2]}}), which can run code")
    reason = re.search(r"WeightsUnpickler error: (.*)", text)
    reason = reason[1] if reason else text.strip().partition("\\n")[0]
    end({_UNUSABLE}, f"is not a file that torch.save wrote ({{reason or type(fault).__name__}}); save it again")
if isinstance(found, dict):
    inside = [key for key in ("state_dict", "model_state_dict", "model") if isinstance(found.get(key), dict)]
    if len(inside) > 1:
        end({_UNUSABLE}, f"holds several models, under {{' and '.join(inside)}}; store one")
    found = found[inside[0]] if inside else found
if not isinstance(found, dict):
    end({_UNUSABLE}, f"holds a {{type(found).__name__}}, no tensors with names; save the state_dict() of the model")
header, parts, size = {{}}, [], 0
for name, tensor in found.items():
    if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
        kind = type(tensor).__name__
        end({_UNUSABLE}, f"holds {{name!r}} of type {{kind}}, not only named tensors; save the model's state_dict()")
    if name.endswith("num_batches_tracked"):
        continue
    if tensor.dtype not in KINDS or tensor.layout != torch.strided or tensor.device.type != "cpu":
        kind = f"{{str(tensor.dtype)[6:]}} on {{tensor.device}}, {{str(tensor.layout)[6:]}}"
        end({_UNUSABLE}, f"{{name}} is of type {{kind}}; save it as dense float64, float32, float16 or bfloat16")
    length = tensor.numel() * tensor.element_size()
    header[name] = {{
        "dtype": KINDS[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [size, size + length]
    }}
    size += length
    # a tensor may show a few stored values many times
    if size > {WEIGHTS.max_bytes}:
        end({_UNUSABLE}, "has tensors of more than {WEIGHTS.max_bytes:,} bytes; {WEIGHTS.remedy}")
    parts.append(tensor.detach())
text = json.dumps(header).encode()
sys.stdout.buffer.write(len(text).to_bytes(8, "little") + text)
for part in parts:
    sys.stdout.buffer.write(part.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
"""
"""Reads a file from standard input and writes its tensors as .safetensors, in their order, or says why not."""


def as_safetensors(path: Path, data: bytes) -> bytes:
    """Return the tensors of a file of torch.save as a .safetensors file whose header has them in their order.

    Raises:
        WeightsError: PyTorch is missing, or does not read the file without running code; the message has the command
            that converts it.
    """
    if find_spec("torch") is None:
        raise _unconverted(path, "is a file of PyTorch, which is not installed")
    # -P: a file in the current folder must not be imported in place of PyTorch
    command = [sys.executable, "-P", "-c", _SCRIPT]
    try:
        ended = subprocess.run(command, input=data, capture_output=True, check=False, timeout=_MAX_SECONDS)
    except subprocess.TimeoutExpired as fault:
        raise _unconverted(path, f"cannot be read within {_MAX_SECONDS} s") from fault
    if ended.returncode == 0:
        return ended.stdout
    text = " ".join(ended.stdout.decode(errors="replace").split())
    if ended.returncode == _UNUSABLE:
        raise WeightsError(f"{path}: {text}")
    raise _unconverted(path, text or f"PyTorch cannot read it (exit code {ended.returncode})")


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
