"""A toy network that tests share: one mixer, three comparators that read it, and one receiver."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, Board, Neuron
from optinc_pdk.circuit.bias import Activation
from optinc_pdk.simulate import Scattering, noise_of
from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.simulate.transmission.symbol_shape import SymbolShape

PROCESS = load_process()
TASK = Averaging(2, 1, 1)
NONE = np.zeros(0)
LABELS = ("c", "in", "n", "out", "p", "t0", "t1", "t2")
GAIN = 8.0
FIELD = 0.05
SLOW = SymbolShape(math.inf, math.inf, 0.875)
BOARD = Board("c", (), (), (("in",),), tuple(Neuron(f"l0_{k}", 0, "p", "n", f"t{k}") for k in range(3)), (("out",),))


def comparators() -> tuple[Scattering, Bias]:
    """A mixer that reads a symbol s, three comparators [s ≥ k], and their sum at one receiver."""
    s = np.zeros((1, len(LABELS), len(LABELS)), dtype=complex)
    for out, source, field in (("p", "c", 0.3), ("p", "in", 0.1), ("n", "c", 0.3), ("n", "in", -0.1)):
        s[0, LABELS.index(out), LABELS.index(source)] = FIELD * field
    for k in range(3):
        s[0, LABELS.index("out"), LABELS.index(f"t{k}")] = 0.3
    # 4 · 0.3 · 0.1 by amplitude
    step = FIELD**2 * 0.12 / 3
    electronics = {f"l0_{k}": Activation(GAIN / step, -(k + 0.5) * step + 0.5 * step / GAIN, 1.0) for k in range(3)}
    codes = NONE.astype(np.int64)
    bias = Bias("soi220", "toy", 16, (), NONE, NONE, NONE, codes, electronics, {"out": 1 / 0.3})
    return Scattering(np.array([1550.0]), LABELS, s), bias


def noise_at(rate: float, **changes: float) -> Noise:
    return replace(noise_of(PROCESS, None, rate), **changes).only("receiver")
