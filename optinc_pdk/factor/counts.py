"""Cost in MZIs by the convention of arXiv 2603.28290: weights only, no dummies, no trees, no biases."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class MziCount:
    """The MZIs of a network.

    Attributes:
        mzis: With the approximated layers.
        mzis_full_svd: The same network with every layer factored by SVD.
    """

    mzis: int
    mzis_full_svd: int

    @property
    def ratio(self) -> float:
        """Area against full SVD, as in the paper's tables."""
        return self.mzis / self.mzis_full_svd


def unitary_mzis(modes: int) -> int:
    """MZIs of a mesh of N modes: N(N - 1)/2.

    Raises:
        ValueError: Fewer than one mode.
    """
    _refuse_sizes_below_one(modes=modes)
    return modes * (modes - 1) // 2


def svd_mzis(out: int, inputs: int) -> int:
    """MZIs of an (out, inputs) = (m, n) matrix by SVD: m(m + 1)/2 + n(n - 1)/2 (arXiv 2603.28290).

    The attenuators are MZIs too; the paper counts m of them.

    Raises:
        ValueError: A size below one.
    """
    _refuse_sizes_below_one(out=out, inputs=inputs)
    return unitary_mzis(out) + out + unitary_mzis(inputs)


def unitary_diagonal_mzis(out: int, inputs: int, block: int | None = None) -> int:
    """MZIs of an (out, inputs) matrix in blocks of size s, each s(s + 1)/2.

    The paper does not write this count down; it reproduces all ratios of its Tables I and II to 0.2 points.

    Args:
        out: Rows.
        inputs: Columns.
        block: s; min(out, inputs) where left out. Blocks at the edge count whole.

    Raises:
        ValueError: A size below one.
    """
    size = min(out, inputs) if block is None else block
    _refuse_sizes_below_one(out=out, inputs=inputs, block=size)
    blocks = -(-out // size) * -(-inputs // size)
    return blocks * (unitary_mzis(size) + size)


def structure_mzis(widths: Sequence[int], approximated: Collection[int] = ()) -> MziCount:
    """MZIs of a multilayer perceptron.

    Args:
        widths: Signals from input to output, such as (4, 64, 4): two layers.
        approximated: Layers in blocks of min(out, in), **numbered from 1 as in the paper's tables**; the
            others are factored by SVD.

    Raises:
        ValueError: Fewer than two widths, a width below one, or a layer that does not exist.
    """
    if len(widths) < 2:
        raise ValueError(f"widths is {tuple(widths)}; give at least the inputs and the outputs")
    layers = range(1, len(widths))
    unknown = sorted(set(approximated) - set(layers))
    if unknown:
        raise ValueError(f"approximated names layer {unknown[0]}; there are layers 1 to {layers[-1]}")
    shapes = {layer: (widths[layer], widths[layer - 1]) for layer in layers}
    full = {layer: svd_mzis(*shape) for layer, shape in shapes.items()}
    mzis = sum(unitary_diagonal_mzis(*shapes[layer]) if layer in approximated else full[layer] for layer in layers)
    return MziCount(mzis=mzis, mzis_full_svd=sum(full.values()))


def _refuse_sizes_below_one(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} is {size}; give at least 1")
