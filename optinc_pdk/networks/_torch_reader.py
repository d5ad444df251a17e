"""Script of a process that reads a file of torch.save from standard input and writes its tensors as .safetensors.

It has the tensors in their order. Where it cannot, it writes why not, and ends with one of the codes below. PyTorch
reads with ``weights_only``, so that nothing of the file is run; memory is limited. The module imports nothing of this
package, and PyTorch only as a script.
"""

from __future__ import annotations

import io
import json
import re
import sys
from typing import Any, NoReturn

UNUSABLE, OBJECTS = 3, 4
"""Exit codes: the file holds no named tensors; it holds objects, which can run code."""
MOST_MEMORY = 4 * 2**30
"""Largest number of bytes of memory that the process may use."""
INSIDE = ("state_dict", "model_state_dict", "model")
"""Keys under which checkpoints hold a model."""


def main(most_bytes: int, remedy: str) -> None:
    """Convert a file whose tensors have at most ``most_bytes``; ``remedy`` is what to do about a larger one."""
    _limit_memory()
    tensors = _named(_loaded(sys.stdin.buffer.read()))
    header, size = {}, 0
    for name, tensor in tensors.items():
        length = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _kind(name, tensor),
            "shape": list(tensor.shape),
            "data_offsets": [size, size + length],
        }
        size += length
        # a tensor may show a few stored values many times
        if size > most_bytes:
            _end(UNUSABLE, f"has tensors of more than {most_bytes:,} bytes; {remedy}")
    text = json.dumps(header).encode()
    sys.stdout.buffer.write(len(text).to_bytes(8, "little") + text)
    for tensor in tensors.values():
        _write(tensor)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


def _end(code: int, text: str) -> NoReturn:
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.exit(code)


def _loaded(data: bytes) -> Any:
    """Return what a file holds."""
    import torch

    try:
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except MemoryError:
        _end(UNUSABLE, f"needs more than {MOST_MEMORY // 2**30} GiB of memory; save its tensors alone")
    except Exception as fault:
        # PyTorch may raise anything for a damaged file
        text = str(fault)
        if name := re.search(r"GLOBAL (\S+)|(TorchScript)", text):
            _end(OBJECTS, f"holds objects of Python ({name[1] or name[2]}), which can run code")
        found = re.search(r"WeightsUnpickler error: (.*)", text)
        reason = found[1] if found else text.strip().partition("\n")[0]
        _end(UNUSABLE, f"is not a file that torch.save wrote ({reason or type(fault).__name__}); save it again")


def _named(found: Any) -> dict[str, Any]:
    """Return the named tensors of a file, without counters."""
    import torch

    if isinstance(found, dict):
        inside = [key for key in INSIDE if isinstance(found.get(key), dict)]
        if len(inside) > 1:
            _end(UNUSABLE, f"holds several models, under {' and '.join(inside)}; store one")
        found = found[inside[0]] if inside else found
    if not isinstance(found, dict):
        _end(UNUSABLE, f"holds a {type(found).__name__}, no tensors with names; save the state_dict() of the model")
    for name, tensor in found.items():
        if "_packed_params" in str(name)[:1000]:
            _end(UNUSABLE, f"holds {name}, which belongs to a quantised layer; save the model as it was before")
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            kind = type(tensor).__name__
            _end(UNUSABLE, f"holds {name!r} of type {kind}, not only named tensors; save the model's state_dict()")
    return {name: tensor for name, tensor in found.items() if not name.endswith("num_batches_tracked")}


def _kind(name: str, tensor: Any) -> str:
    """Return the name of a tensor's type in .safetensors files."""
    import torch

    kinds = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
    if tensor.dtype not in kinds or tensor.layout != torch.strided or tensor.device.type != "cpu":
        kind = f"{str(tensor.dtype)[6:]} on {tensor.device}, {str(tensor.layout)[6:]}"
        _end(UNUSABLE, f"{name} is of type {kind}; save it as dense float64, float32, float16 or bfloat16")
    return kinds[tensor.dtype]


def _write(tensor: Any) -> None:
    import torch

    # a copy: what counts as contiguous may have any stride along a dimension of size 1
    values = tensor.detach().resolve_neg().clone(memory_format=torch.contiguous_format)
    sys.stdout.buffer.write(values.reshape(-1).view(torch.uint8).numpy().tobytes())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
