"""Comparison of what sampled chips compute with what a general network computes in floating point."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.circuit import Bias, Board
from optinc_pdk.drive import RangeError
from optinc_pdk.onn import (
    GeneralNetwork,
    LayerFactor,
    NetworkComparison,
    NetworkData,
    NetworkLimits,
    factorise,
)
from optinc_pdk.simulate import Scattering, transmit_vectors, trim_offsets
from optinc_pdk.simulate.transmission.detection import receiver_fields
from optinc_pdk.tolerance.calibration.network_procedure import NetworkSetting, calibrate_network
from optinc_pdk.tolerance.calibration.virtual_bench import VirtualBench
from optinc_pdk.tolerance.montecarlo.check_outcome import Quantity
from optinc_pdk.tolerance.montecarlo.sample_study import AFTER, BETWEEN
from optinc_pdk.tolerance.variation.nominal_chip import NominalChip
from optinc_pdk.tolerance.variation.phase_lock import aligned_bias
from optinc_pdk.tolerance.variation.sampled_response import sample_scattering
from optinc_pdk.tolerance.variation.sampling import ChipSample, nominal_sample

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


def network_quantities(data: NetworkData, limits: NetworkLimits) -> tuple[Quantity, ...]:
    """Return the quantities of the comparison with a network: agreement, accuracy if there are labels, deviations."""
    return (
        Quantity("agreement", "samples on which chip and network agree", "%", False, limits.agreement),
        *([] if data.labels is None else [Quantity("accuracy", "accuracy", "%", False, limits.accuracy)]),
        Quantity("worst_deviation", "largest deviation of an output", "%"),
        Quantity("rms_deviation", "rms deviation of the outputs", "%"),
    )


def network_values(found: NetworkComparison) -> dict[str, float]:
    """Return the values of :func:`network_quantities`."""
    accuracy = found.chip_accuracy
    return (
        {"agreement": found.agreement}
        | ({} if accuracy is None else {"accuracy": accuracy})
        | {"worst_deviation": float(found.deviations.max()), "rms_deviation": found.rms}
    )


@dataclass(frozen=True, eq=False)
class NetworkCheck:
    """The outputs of a chip for samples of data, compared with those of its network.

    Attributes:
        network: The network, with the inputs over which its signals are scaled.
        data: The samples.
        limits: What a chip must reach.
        board: Board netlist that joins the chip's fibres.
        nominal: (receivers, J) fields at the receivers of the nominal chip, relative to their oscillators, to which
            the oscillators of a sample are aligned.
    """

    network: GeneralNetwork
    data: NetworkData
    limits: NetworkLimits
    board: Board
    nominal: Complexes

    tuned_stages = (BETWEEN, AFTER)

    @staticmethod
    def of(chip: NominalChip, network: GeneralNetwork, data: NetworkData, limits: NetworkLimits) -> NetworkCheck:
        """Return the check of samples of a nominal chip; other arguments are the attributes."""
        s = sample_scattering(chip, nominal_sample(chip), chip.voltage_v)
        phases = np.array([chip.bias.phases[label] for row in chip.board.outputs for label in row])
        fields = receiver_fields(s, chip.board) * np.exp(-1j * phases)[:, np.newaxis]
        return NetworkCheck(network, data, limits, chip.board, fields)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Agreement, accuracy if there are labels, and deviations, as of a build."""
        return network_quantities(self.data, self.limits)

    @cached_property
    def factors(self) -> tuple[LayerFactor, ...]:
        """Factorisation of the layers."""
        return factorise(self.network)

    def header(self) -> dict[str, Any]:
        """Return what the comparison depends on."""
        limits = self.limits
        return {
            "kind": "network",
            "sha256": self.network.digest,
            "data": self.data.digest,
            "agreement": limits.agreement,
            "tolerance": limits.tolerance,
            "accuracy": limits.accuracy,
        }

    def stated_setting(self, chip: NominalChip) -> NetworkSetting:
        """Return voltages and electronics of the bias file."""
        return NetworkSetting(chip.voltage_v, chip.bias, np.zeros(0))

    def calibrated(self, chip: NominalChip, sample: ChipSample, bits: float | None) -> Mapping[str, NetworkSetting]:
        """Calibrate a sample, and trim its offsets as a build does, with the inputs of the network's task."""
        bench = VirtualBench(chip, sample, bits)
        settings = zip(self.tuned_stages, calibrate_network(bench, chip, self.network, self.factors), strict=True)
        found = {}
        for stage, setting in settings:
            s = sample_scattering(chip, sample, setting.voltage_v, bits)
            bias = self._aligned(s, setting.bias)
            # signals far from those of the network would need offsets beyond the card's range: these are not trimmed
            with suppress(RangeError):
                bias = trim_offsets(s, self.board, bias, self.network, self.factors, chip.process)
            found[stage] = replace(setting, bias=bias)
        return found

    def measured(self, s: Scattering, setting: NetworkSetting) -> tuple[bool, Mapping[str, float]]:
        """Send all samples of the data through a biased sample of the chip."""
        outputs = transmit_vectors(self.data.x, s, self.board, self._aligned(s, setting.bias)).outputs
        found = NetworkComparison(self.data, self.limits, self._expected, outputs)
        return found.passed, network_values(found)

    def _aligned(self, s: Scattering, bias: Bias) -> Bias:
        return aligned_bias(s, self.board, self.nominal, bias)

    @cached_property
    def _expected(self) -> Floats:
        return self.network.forward(self.data.x)
