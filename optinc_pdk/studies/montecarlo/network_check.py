"""Comparison of what sampled chips compute with what a general network computes in floating point."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.drive import RangeError
from optinc_pdk.networks import (
    GeneralNetwork,
    LayerFactor,
    NetworkComparison,
    NetworkData,
    NetworkLimits,
    factorise,
)
from optinc_pdk.simulate import Scattering, transmit_vectors, trim_offsets
from optinc_pdk.simulate.transmission.detection import receiver_fields
from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.studies.calibration.network_procedure import NetworkSetting, calibrate_network, retune_network
from optinc_pdk.studies.calibration.virtual_bench import VirtualBench
from optinc_pdk.studies.montecarlo.check_outcome import Quantity
from optinc_pdk.studies.montecarlo.network_quantities import network_quantities, network_values
from optinc_pdk.studies.montecarlo.sample_noise import BENCH_AVERAGES, SampleConditions
from optinc_pdk.studies.montecarlo.sample_study import AFTER, BETWEEN
from optinc_pdk.studies.noisy_outputs import NoisyNetwork
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.phase_lock import aligned_bias
from optinc_pdk.studies.variation.sampled_response import sample_scattering
from optinc_pdk.studies.variation.sampling import ChipSample, nominal_sample


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
    noise_quantities = ()

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
            "rms_error": limits.rms_error,
        }

    def stated_setting(self, chip: NominalChip) -> NetworkSetting:
        """Return voltages and electronics of the bias file."""
        return NetworkSetting(chip.voltage_v, chip.bias, np.zeros(0))

    def calibrated(
        self, chip: NominalChip, sample: ChipSample, conditions: SampleConditions
    ) -> Mapping[str, NetworkSetting]:
        """Calibrate a sample, and trim its offsets as a build does, with the inputs of the network's task.

        Trimming takes means over all of these inputs, which hardly have noise, so that it is simulated without.
        """
        bench = _bench(chip, sample, conditions)
        settings = zip(self.tuned_stages, calibrate_network(bench, chip, self.network, self.factors), strict=True)
        return {stage: self._trimmed(chip, sample, setting, conditions.bits) for stage, setting in settings}

    def recalibrated(
        self, chip: NominalChip, sample: ChipSample, conditions: SampleConditions, setting: NetworkSetting
    ) -> tuple[NetworkSetting, int]:
        """Tune a sample that has drifted, from its setting, and trim its offsets."""
        bench = _bench(chip, sample, conditions)
        tuned = retune_network(bench, chip, self.network, self.factors, setting.voltage_v)
        return self._trimmed(chip, sample, tuned, conditions.bits), bench.settings

    def _trimmed(
        self, chip: NominalChip, sample: ChipSample, setting: NetworkSetting, bits: float | None
    ) -> NetworkSetting:
        s = sample_scattering(chip, sample, setting.voltage_v, bits)
        bias = self._aligned(s, setting.bias)
        # signals far from those of the network would need offsets beyond the card's range: these are not trimmed
        with suppress(RangeError):
            bias = trim_offsets(s, self.board, bias, self.network, self.factors, chip.process)
        return replace(setting, bias=bias)

    def measured(
        self, s: Scattering, setting: NetworkSetting, noise: Noise | None = None, seed: int = 0
    ) -> tuple[bool, Mapping[str, float]]:
        """Send all samples of the data through a biased sample of the chip."""
        bias = self._aligned(s, setting.bias)
        if noise is not None:
            noisy = NoisyNetwork(s, self.board, bias, self.network, self.data, self.limits)
            return noisy.measured(noise, 1, seed)
        outputs = transmit_vectors(self.data.x, s, self.board, bias).outputs
        found = NetworkComparison(self.data, self.limits, self._expected, outputs)
        return found.passed, network_values(found)

    def _aligned(self, s: Scattering, bias: Bias) -> Bias:
        return aligned_bias(s, self.board, self.nominal, bias)

    @cached_property
    def _expected(self) -> Floats:
        return self.network.forward(self.data.x)


def _bench(chip: NominalChip, sample: ChipSample, conditions: SampleConditions) -> VirtualBench:
    return VirtualBench(chip, sample, conditions.bits, conditions.noise, conditions.seed, BENCH_AVERAGES)
