"""Named tensors, as .safetensors and PyTorch's files hold them, as layers: which are layers, and in what order.

Such a file states neither the graph nor the activation of a model. What its names and shapes leave open is refused with
the readings that they allow, never guessed.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, takewhile

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Floats
from optinc_pdk.errors import InputError
from optinc_pdk.networks._steps import Affine, Clamp, FoldedModel, Sine, Step, fold
from optinc_pdk.networks.layers import Layer
from optinc_pdk.options import UPPER_LIMIT, Activation

COUNTER = "num_batches_tracked"
"""Last part of the name of a tensor that no model computes with."""
MAX_LAYERS = 500
_MAX_TRIES = 20_000
"""Largest number of steps of the search for the order, which could otherwise try the orders of all layers."""
_EPSILON = 1e-5
_WRAPPERS = {"module", "_orig_mod"}
"""Names under which DataParallel and torch.compile hold a model."""
_SEPARATOR = re.compile(r"[./]")
_NUMBERED = re.compile(r"(|.*[^0-9])([0-9]{1,9})", re.DOTALL)
_LINEAR = "a chip computes layers (torch.nn.Linear)"
_NAMED = (
    (r"lora_", "LoRA", "merge it into its layer (merge_and_unload)"),
    (r"(weight|bias)_(ih|hh|hr)(_l\d+\w*)?$|(LSTM|GRU|RNN)\w*Cell", "an LSTM, GRU or RNN", _LINEAR),
    (r"in_proj_(weight|bias)$|bias_[kv]$|[qkv]_proj\b|(?i:attention|attn)\w*\.\w+\.", "attention", _LINEAR),
    (r"weight_(g|v|orig|mask|u)$|parametrizations\.", "a parametrised weight", "remove the parametrisation"),
    (
        r"(zero_point|scales|qweight|qzeros|g_idx|absmax|SCB|weight_scale\w*|quant_\w+)$",
        "a quantised layer",
        "save the model as it was before",
    ),
    (r"\bembedding$", "an Embedding", _LINEAR),
    (r"\b(scale|mean|var)$", "BatchNorm, LayerNorm or GroupNorm, or the scale of a quantised layer", _LINEAR),
)
"""Tensors of other steps by their names: pattern, what it is, what to do."""

Name = tuple[str, ...]
"""Parts of the name of a module."""
_Norms = list[tuple[str, Affine, bool]]
"""Label and function of every BatchNorm of a layer, and whether it is behind the activation."""


def layers_of(tensors: Mapping[str, Floats], ordered: bool, activation: Activation) -> FoldedModel:
    """Return the layers that named tensors are.

    Args:
        tensors: Values by name, without counters.
        ordered: Whether they are in the order in which a model has registered them.
        activation: Activation between the layers.

    Raises:
        InputError: A tensor is part of something else than a layer or BatchNorm; or names and shapes allow no order of
            the layers, or several, or leave open on which side of the activation a BatchNorm is.
    """
    modules: dict[Name, dict[str, Floats]] = {}
    labels: dict[Name, str] = {}
    for name, values in tensors.items():
        *path, part = _SEPARATOR.split(name)
        parts = modules.setdefault(tuple(path), {})
        labels.setdefault(tuple(path), name[: -len(part) - 1] or name)
        if part in parts:
            raise InputError(f"{name}: a second tensor of this name; rename one of them")
        parts[part] = values
    ends = zip(min(modules, default=()), max(modules, default=()), strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))
    layers: dict[Name, Layer] = {}
    norms: dict[Name, Affine] = {}
    owns = {module: module[min(shared, len(module) - 1) :] if module else () for module in modules}
    # what a module is may be said by the name of another one, such as 0.parametrizations
    for module, parts in modules.items():
        _refuse_named(labels[module], owns[module], parts)
    for module, parts in modules.items():
        _refuse_others(labels[module], owns[module], parts)
        if "running_mean" in parts:
            norms[module] = _norm(labels[module], parts)
        else:
            layers[module] = _layer(labels[module], parts)
    if not 1 <= len(layers) <= MAX_LAYERS:
        raise InputError(
            f"holds {len(layers):,} layers, the limit is {MAX_LAYERS}; store a model of layers, each a weight of two "
            "dimensions, such as 0.weight, and mostly 0.bias"
        )
    # sorted names have a bias before its weight, registration has it behind
    ordered = ordered and all(next(iter(parts)) != "bias" for parts in modules.values())
    chain, remarks = _order(layers, ordered, labels)
    placed = _places(layers, norms, labels)
    _check_numbers(chain, placed, labels)
    _check_parts(chain, labels)
    if norms:
        remarks.append(f"BatchNorm is read with eps {_EPSILON:g}, PyTorch's default, which the file does not state")
        remarks += [
            f"{label} is read behind an activation, for which a number is left out"
            for found in placed.values()
            for label, _, behind in found
            if behind
        ]
    model = fold(_steps([(labels[each], layers[each], placed[each]) for each in chain], activation))
    return replace(model, remarks=(*remarks, *model.remarks))


def _steps(chain: Sequence[tuple[str, Layer, _Norms]], activation: Activation) -> Iterator[Step]:
    """Yield the layers in their order, with the activation and BatchNorm between them."""
    limit = UPPER_LIMIT[activation]
    clamp = Clamp(0.0, math.inf if limit is None else limit)
    for i, (label, layer, norms) in enumerate(chain):
        yield (label, layer)
        yield from ((name, norm) for name, norm, behind in norms if not behind)
        late = [(name, norm) for name, norm, behind in norms if behind]
        if late or i < len(chain) - 1:
            yield (f"the activation after {label}", clamp)
            if activation == "sine":
                yield (f"the activation after {label}", Affine(0.5 * math.pi))
                yield (f"the activation after {label}", Sine())
        yield from late


def _refuse_named(label: str, own: Name, parts: Mapping[str, Floats]) -> None:
    """Refuse a module whose names say that it is no layer and no BatchNorm; arguments are those of the next function.

    Raises:
        InputError: It is something else.
    """
    for part in parts:
        for pattern, what, remedy in _NAMED:
            if re.search(pattern, ".".join((*own, part))):
                raise InputError(f"{label}: {part} belongs to {what}, which is not read; {remedy}")


def _refuse_others(label: str, own: Name, parts: Mapping[str, Floats]) -> None:
    """Refuse a module whose tensors are not those of a layer or a BatchNorm, as what it is.

    Args:
        label: Its name in the file.
        own: Parts of its name behind those that all names have.
        parts: Its tensors by the last part of their names.

    Raises:
        InputError: It is something else.
    """
    weight, bias = parts.get("weight", parts.get("kernel")), parts.get("bias")
    if "running_mean" in parts or "running_var" in parts:
        allowed, needed = {"weight", "bias", "running_mean", "running_var"}, ["running_mean", "running_var"]
    else:
        allowed = {"kernel" if "kernel" in parts else "weight", "bias"}
        needed = ["weight"] if weight is None else []
        kind = None
        if weight is not None and weight.ndim == 1:
            norm = "LayerNorm or GroupNorm, or BatchNorm without statistics"
            kind = norm if bias is not None else "PReLU, or normalisation without bias"
        elif weight is not None and weight.ndim > 2:
            kind = "a convolution, or Bilinear"
        elif weight is not None and bias is None and any("embed" in part.lower() for part in own):
            kind = "an Embedding"
        if weight is not None and kind is not None:
            raise InputError(f"{label}: has a weight of shape {weight.shape}: {kind}, which is not read; {_LINEAR}")
    for part in parts:
        if part not in allowed:
            raise InputError(
                f"{label}: the tensor {part} belongs to no step that is read; {_LINEAR}, each of weight (or kernel) "
                "and bias: remove it, or export the model as .onnx"
            )
    for part in needed:
        if part not in parts:
            raise InputError(f"{label}: {part} is missing beside {next(iter(parts))}; store it too")


def _layer(label: str, parts: Mapping[str, Floats]) -> Layer:
    """Return the layer of a module; Flax and Keras store its weight as ``kernel``, (in, out)."""
    weight = parts["kernel"].T if "kernel" in parts else parts["weight"]
    try:
        return Layer(weight, parts.get("bias", np.zeros(weight.shape[:1])))
    except ValueError as fault:
        raise InputError(f"{label}: {fault}") from fault


def _norm(label: str, parts: Mapping[str, Floats]) -> Affine:
    """Return a BatchNorm as it is evaluated."""
    mean, variance = parts["running_mean"], parts["running_var"]
    if len({values.shape for values in parts.values()}) > 1 or mean.ndim != 1:
        raise InputError(f"{label}: its tensors are of different lengths; save it again")
    if not (variance >= 0.0).all():
        raise InputError(f"{label}: running_var holds negative values or NaN; train again, or repair the values")
    scale = parts.get("weight", np.ones_like(mean)) / np.sqrt(variance + _EPSILON)
    return Affine(scale, parts.get("bias", np.zeros_like(mean)) - mean * scale)


def _order(layers: Mapping[Name, Layer], ordered: bool, labels: Mapping[Name, str]) -> tuple[list[Name], list[str]]:
    """Return the layers in their order, and remarks about it.

    Raises:
        InputError: Names and shapes allow no order, or several.
    """
    names = list(layers)
    before = np.array([[_number_difference(one, other) < 0 for other in names] for one in names])
    inputs = np.array([each.inputs for each in layers.values()])
    outputs = np.array([each.outputs for each in layers.values()])
    found = _chains(before, inputs, outputs)
    if ordered and not np.tril(before).any() and np.array_equal(outputs[:-1], inputs[1:]):
        if len(found) == 1:
            return names, []
        arrows = _arrows([labels[each] for each in names])
        return names, [f"the order of the layers is that in which the file stores them: {arrows}"]
    remedy = "number the layers in their order, or save them as .npz (layers.0.weight, …) or as .onnx"
    if not found:
        shapes = ", ".join(f"{labels[each]} {layers[each].weight.shape}" for each in names[:20])
        raise InputError(
            "no single chain of its layers was found in which each takes the outputs of the one before: "
            f"(outputs, inputs) of its {len(names)} layers are {shapes}{', …' if len(names) > 20 else ''}; {remedy}"
        )
    if len(found) > 1:
        first = next(i for i, (one, other) in enumerate(zip(*found, strict=True)) if one != other)
        readings = [_arrows([labels[names[i]] for i in chain], max(first - 1, 0)) for chain in found]
        raise InputError(
            f"names and shapes allow several orders of its layers, {readings[0]} or {readings[1]}; {remedy}"
        )
    return [names[i] for i in found[0]], []


def _arrows(labels: Sequence[str], start: int = 0, most: int = 6) -> str:
    """Return names in their order as text, without those before ``start`` and after the ``most`` that follow."""
    shown = ["…"] * (start > 0) + list(labels[start : start + most]) + ["…"] * (len(labels) > start + most)
    return " → ".join(shown)


def _number_difference(one: Name, other: Name) -> int:
    """Return the difference of the numbers in which two names differ first; 0 if they differ in something else."""
    for first, second in zip(one, other, strict=False):
        if first != second:
            (word, number), (same, following) = _word_and_number(first), _word_and_number(second)
            return number - following if word == same else 0
    return 0


@lru_cache
def _word_and_number(part: str) -> tuple[str, int]:
    """Return what is before the number at the end of a part of a name, and the number; the whole part and 0 if none."""
    found = _NUMBERED.fullmatch(part)
    return (found[1], int(found[2])) if found else (f"{part} without number", 0)


def _chains(before: NDArray[np.bool_], inputs: NDArray[np.int_], outputs: NDArray[np.int_]) -> list[list[int]]:
    """Return up to two chains of all layers; none as well if ``_MAX_TRIES`` do not decide whether there is another.

    Args:
        before: Whether layer i is before layer j, (N, N).
        inputs: Number of inputs of each layer.
        outputs: Number of outputs of each layer.
    """
    waits = before.sum(axis=0)
    free = np.ones(len(inputs), dtype=bool)
    chain: list[int] = []
    found: list[list[int]] = []
    branches = [iter(np.flatnonzero(waits == 0).tolist())]
    for _ in range(_MAX_TRIES):
        following = next(branches[-1], None)
        if following is None:
            branches.pop()
            if not chain:
                return found
            last = chain.pop()
            free[last] = True
            waits += before[last]
            continue
        chain.append(following)
        free[following] = False
        waits -= before[following]
        if len(chain) == len(inputs):
            found.append(chain.copy())
            if len(found) == 2:
                return found
        branches.append(iter(np.flatnonzero(free & (waits == 0) & (inputs == outputs[following])).tolist()))
    return []


def _places(
    layers: Mapping[Name, Layer], norms: Mapping[Name, Affine], labels: Mapping[Name, str]
) -> dict[Name, _Norms]:
    """Return the BatchNorms of each layer.

    In a numbered nn.Sequential, the number of one is that of its layer + 1; or + 2 with the activation between them, if
    no number is left out behind it.

    Raises:
        InputError: The names do not say where one is.
    """
    stored = {name[:end] for name in (*layers, *norms) for end in range(len(name) + 1)}
    placed: dict[Name, _Norms] = defaultdict(list)
    for name, norm in norms.items():
        nearest = [
            (*name[:-1], str(_word_and_number(name[-1])[1] - distance)) if name and _is_number(name[-1]) else None
            for distance in (1, 2)
        ]
        behind = nearest[0] not in stored
        layer = nearest[behind]
        if behind and name and (*name[:-1], str(_word_and_number(name[-1])[1] + 1)) not in stored:
            # one number is left out before it and one behind it: either may be the activation, the other Dropout
            layer = None
        if layer is None or layer not in layers:
            raise InputError(
                f"{labels[name]}: is a BatchNorm, of which the names do not say whether it is before the activation "
                f"(layer → {labels[name]} → activation) or behind it (layer → activation → {labels[name]}); merge it "
                "with torch.nn.utils.fusion.fuse_linear_bn_eval, or export the model as .onnx"
            )
        placed[layer].append((labels[name], norm, behind))
    return placed


def _is_number(part: str) -> bool:
    return _word_and_number(part)[0] == ""


def _check_numbers(chain: Sequence[Name], placed: Mapping[Name, _Norms], labels: Mapping[Name, str]) -> None:
    """Refuse numbered layers without a number for the activation between them, unless they are a list of layers.

    A list (nn.ModuleList) holds its layers alone, so that no number is left out between any of them.

    Raises:
        InputError: The names do not say whether the activation is between two layers.
    """
    gaps: dict[Name, list[tuple[int, Name, Name]]] = defaultdict(list)
    for one, other in pairwise(chain):
        if one[:-1] == other[:-1] and _is_number(one[-1]) and _is_number(other[-1]):
            gap = _number_difference(other, one) - 1 - len(placed.get(one, ()))
            gaps[one[:-1]].append((gap, one, other))
    for container, found in gaps.items():
        gap, one, other = min(found)
        if gap == 0 and (_WRAPPERS.issuperset(container) or max(found)[0] > 0 or placed.get(one)):
            raise InputError(
                f"{labels[one]} and {labels[other]} have no number between them: nothing is between them in an "
                f"nn.Sequential ({labels[one]} → {labels[other]}), an activation in other models ({labels[one]} → "
                f"activation → {labels[other]}); leave out a number for each activation, or save the model as .npz "
                "(layers.0.weight, …) or as .onnx"
            )


def _part(name: Name, depth: int) -> Name:
    """Return the part of a model in which a layer is: the name up to a depth; layers that are numbered are one part."""
    numbered = len(name) == depth + 1 and _is_number(name[-1])
    return name[: depth + (not numbered)]


def _check_parts(chain: Sequence[Name], labels: Mapping[Name, str]) -> None:
    """Refuse parts of several layers each, such as encoder and decoder, or actor and critic.

    Raises:
        InputError: The names do not say whether the parts are one network, with an activation between them.
    """
    for one, other in pairwise(chain):
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
        parts = [_part(name, shared) for name in (one, other)]
        layers = [sum(1 for name in chain if _part(name, shared) == part) for part in parts]
        if parts[0] != parts[1] and min(layers) > 1:
            first, second = (".".join(part) or "the numbered layers" for part in parts)
            raise InputError(
                f"{first} and {second} have {layers[0]} and {layers[1]} layers, and the names do not say whether they "
                f"are networks of their own ({first}; {second}), or one, with an activation between them "
                f"({labels[one]} → activation → {labels[other]}) or without ({labels[one]} → {labels[other]}); store "
                "one of them alone, or save the model as .npz (layers.0.weight, …) or as .onnx"
            )
