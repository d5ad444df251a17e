"""Outputs of the chips of matrices and of general networks under noise, compared with their targets.

Symbols are sent one after the other in random order, so that they run into each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.assemble import matrix_labels
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.matrices import MatrixComparison, MatrixTarget, compare_matrices
from optinc_pdk.networks import GeneralNetwork, NetworkComparison, NetworkData, NetworkLimits
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.detection import ChipNetwork, DetectionMatrix, network_of
from optinc_pdk.simulate.transmission.noise import DetectionSources, Noise, draw_noise, noise_of
from optinc_pdk.simulate.transmission.reception import CHUNK, input_amplitudes, settled_amplitudes
from optinc_pdk.studies.outcomes import Quantity

VECTORS = 4096
"""Number of random vectors that a matrix is multiplied by in one pass."""
LEAST_NOISE = 1e-30
"""Smallest noise power relative to the signal, 300 dB, so that a chip without noise has a finite ratio."""
ORDER_SEED, VECTOR_SEED = 2607, 2608
SIGNAL_TO_NOISE = (
    Quantity("signal_to_noise_db", "signal-to-noise ratio, median of the outputs", "dB", rising=False),
    Quantity("worst_signal_to_noise_db", "signal-to-noise ratio of the worst output", "dB", rising=False),
)
"""Quantities of the chip of a matrix with noise, apart from its errors."""


def operating_noise(process: Process, laser_w: float | None = None, symbol_rate_bd: float | None = None) -> Noise:
    """Return the noise of a chip in operation; the receivers' oscillators have the card's power, or that of a guide.

    The power launched into every guide, in W, and the symbol rate are by default the card's.

    Raises:
        InputError: The cards state no noise, or a power or rate is out of range.
    """
    noise = noise_of(process, laser_w, symbol_rate_bd)
    return noise if noise.oscillator_w is not None else replace(noise, oscillator_w=noise.laser_w)


def network_quantities(data: NetworkData, limits: NetworkLimits) -> tuple[Quantity, ...]:
    """Return the quantities of the comparison with a network: agreement, accuracy or error, deviations."""
    return (
        Quantity("agreement", "samples on which chip and network agree", "%", False, limits.agreement),
        *([] if data.labels is None else [Quantity("accuracy", "accuracy", "%", False, limits.accuracy)]),
        Quantity("worst_deviation", "largest deviation of an output", "%"),
        Quantity("rms_deviation", "rms deviation of the outputs", "%"),
        *(
            []
            if data.outputs is None
            else [Quantity("rms_error", "rms error of the outputs", "", True, limits.rms_error)]
        ),
    )


def network_values(found: NetworkComparison) -> dict[str, float]:
    """Return the values of :func:`network_quantities`."""
    accuracy, error = found.chip_accuracy, found.rms_error(found.outputs)
    return (
        {"agreement": found.agreement}
        | ({} if accuracy is None else {"accuracy": accuracy})
        | {"worst_deviation": float(found.deviations.max()), "rms_deviation": found.rms}
        | ({} if error is None else {"rms_error": error})
    )


@dataclass(frozen=True, eq=False)
class NoisyNetwork:
    """Outputs of the chip of a general network for samples of data.

    Attributes:
        s: S-parameters of the chip.
        board: Board netlist that joins the chip's fibres.
        bias: Electronics of its neurons and receivers, and scales of its inputs.
        network: The network.
        data: The samples.
        limits: What the chip must reach.
    """

    s: Scattering
    board: Board
    bias: Bias
    network: GeneralNetwork
    data: NetworkData
    limits: NetworkLimits

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Agreement, accuracy if there are labels, and deviations, as of a build."""
        return network_quantities(self.data, self.limits)

    @property
    def sent(self) -> int:
        """Number of samples."""
        return len(self.data.x)

    @property
    def coherent(self) -> bool:
        """Outputs are signed fields."""
        return True

    @cached_property
    def chip(self) -> ChipNetwork:
        """All layers of the chip on its board."""
        return network_of(self.s, self.board, self.bias, 0)

    @property
    def offsets(self) -> Floats:
        """(M,) offsets of the receivers of the outputs."""
        labels = [label for row in self.board.outputs for label in row]
        return np.array([self.bias.output_offsets.get(label, 0.0) for label in labels])

    def measured(self, noise: Noise, passes: int, seed: int) -> tuple[bool, Mapping[str, float]]:
        """Send all samples in random order, and compare the outputs with those of the network."""
        rng = np.random.default_rng((ORDER_SEED, seed))
        order = np.concatenate([rng.permutation(self.sent) for _ in range(passes)])
        data = NetworkData(
            self.data.x[order],
            None if self.data.labels is None else self.data.labels[order],
            None if self.data.outputs is None else self.data.outputs[order],
        )
        outputs = self._outputs(input_amplitudes(data.x, self.board, self.bias), noise, seed)
        found = NetworkComparison(data, self.limits, self.network.forward(data.x), outputs)
        return found.passed, network_values(found)

    def _outputs(self, sent: Floats, noise: Noise, seed: int) -> Floats:
        """Return the (S, M) values that the receivers read for (S, K) amplitudes of the inputs."""
        chip, offsets = self.chip, self.offsets
        parts = []
        for start in range(0, len(sent), CHUNK):
            inputs = sent[start : start + CHUNK]
            drawn = draw_noise(noise, chip.detection_sources, start, len(inputs), seed)
            light, _ = settled_amplitudes(inputs, chip, noise, drawn)
            parts.append(chip.receivers.readings(light, noise, drawn[-1]) * chip.scale + offsets)
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class NoisyMatrix:
    """Outputs of the chip of a matrix for random vectors, whose entries are uniform from -1 to 1.

    Where fields are read, receivers read their parts in phase and in quadrature with the oscillator, each with its own
    noise. Where powers are read, the outputs are powers.

    Attributes:
        fields: (m, n) fields at the outputs for a field of 1 at each input.
        target: The matrix.
    """

    fields: Complexes
    target: MatrixTarget

    @staticmethod
    def of(s: Scattering, target: MatrixTarget) -> NoisyMatrix:
        """Return the outputs of a chip with some S-parameters."""
        inputs, outputs = matrix_labels(target)
        return NoisyMatrix(s.between(outputs, inputs)[0], target)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Signal-to-noise ratios of the outputs, and the error against the matrix times the vector."""
        return (*SIGNAL_TO_NOISE, Quantity("rms_error", "rms error of the outputs over their rms", "%"))

    @property
    def sent(self) -> int:
        """Number of vectors."""
        return VECTORS

    @property
    def coherent(self) -> bool:
        """Whether fields or their real parts are read."""
        return self.target.read != "power"

    @cached_property
    def _compared(self) -> MatrixComparison:
        return compare_matrices(self.fields, self.target)

    @cached_property
    def _detection(self) -> tuple[DetectionMatrix, ...]:
        """Photodiodes of the outputs, or receivers of the parts in phase, and in quadrature if fields are read."""
        m, n = self.fields.shape
        # the first source is the carrier, which a chip of a matrix does not have
        stacked = np.hstack([self.fields.T.real, self.fields.T.imag])
        field = np.concatenate([np.zeros((1, 2 * m)), stacked])
        feed = DetectionSources(slice(1, 1 + n), "server", m)
        reaching = np.arange(1 + n)
        if self.target.read == "power":
            return (DetectionMatrix(reaching, field, feed, neurons=1 + n),)
        phase = np.angle((self._compared.fields.conj() * self.fields).sum(axis=1))
        turns = (0.0, 0.5 * math.pi) if self.target.read == "field" else (0.0,)
        return tuple(DetectionMatrix(reaching, field, feed, phase=phase + turn, neurons=1 + n) for turn in turns)

    def measured(self, noise: Noise, passes: int, seed: int) -> tuple[bool, Mapping[str, float]]:
        """Send random vectors, and compare readings with those without noise and with the matrix times the vector."""
        vectors = np.random.default_rng((VECTOR_SEED, seed)).uniform(-1.0, 1.0, (passes * VECTORS, self.target.inputs))
        light = np.concatenate([np.ones((len(vectors), 1)), vectors], axis=1)
        scale, wanted = self._compared.scale, vectors @ self.target.matrix.T
        if self.target.read == "power":
            scale, parts = scale**2, [np.abs(wanted) ** 2]
        else:
            parts = [wanted.real, wanted.imag][: len(self._detection)]
        drawn = draw_noise(noise, [one.feed for one in self._detection], 0, len(light), seed)
        signal, disturbed, error, power = np.zeros(self.target.outputs), 0.0, 0.0, 0.0
        for detection, draw, part in zip(self._detection, drawn, parts, strict=True):
            settled, read = detection.readings(light, None, None), detection.readings(light, noise, draw)
            signal = signal + (settled**2).mean(axis=0)
            disturbed = disturbed + ((read - settled) ** 2).mean(axis=0)
            error += float(((read / scale - part) ** 2).mean())
            power += float((part**2).mean())
        ratio = -10.0 * np.log10(np.maximum(disturbed / np.maximum(signal, np.finfo(np.float64).tiny), LEAST_NOISE))
        return True, {
            "signal_to_noise_db": float(np.median(ratio)),
            "worst_signal_to_noise_db": float(ratio.min()),
            "rms_error": math.sqrt(error / power),
        }
