"""Monte-Carlo samples of a chip: parameters of devices, waveguides, heaters and laser from the card's distributions.

Every kind of imperfection has its own random stream, seeded with the sample's seed and the kind's index. Scaling one
kind therefore does not change the others, and a factor of 2 on a kind doubles the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import KINDS, DeviceCard
from optinc_pdk.cards.variation import SizeVariation
from optinc_pdk.errors import InputError
from optinc_pdk.models.passives import UM_PER_CM
from optinc_pdk.simulate.heater_drive import nominal_crosstalk
from optinc_pdk.studies.variation.imperfections import Imperfections
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.random_field import effective_length_um, wafer_field

Generator = np.random.Generator

PHASE = "phase_rad"
"""Key of a device's static phase error among its sampled parameters."""
LOSS = "loss_db"
NM_PER_UM = 1000.0
_PER_UM = 100.0
"""Waveguide length in µm that the sensitivities to width and height refer to."""


@dataclass(frozen=True, eq=False)
class ChipSample:
    """Sampled parameters of one fabricated chip with n nets and H heaters.

    Calibration must not use them.

    Attributes:
        seed: Seed that the sample was drawn with.
        wavelength_nm: Wavelength of its laser.
        parameters: Component name to model parameter to (I,) values, in the order of the flat circuit. Components and
            parameters without variation are absent. ``phase_rad`` is a static phase at the process wavelength.
        guide_phase_rad: (n,) phase error of each net's waveguide at the process wavelength.
        guide_loss_db: (n,) excess loss of each net's waveguide over its nominal loss.
        power_scale: (H,) power for a phase of π of each heater, relative to the card.
        resistance_scale: (H,) resistance of each heater relative to the layout.
        drift: (H,) factor by which each resistance drifts in use, see :func:`aged_sample`.
        crosstalk: (H, H) thermal crosstalk: share of heater j's phase in the waveguide under heater i; 1 on the
            diagonal.
    """

    seed: int
    wavelength_nm: float
    parameters: Mapping[str, Mapping[str, Floats]]
    guide_phase_rad: Floats
    guide_loss_db: Floats
    power_scale: Floats
    resistance_scale: Floats
    drift: Floats
    crosstalk: Floats


def draw_sample(chip: NominalChip, imperfections: Imperfections, seed: int) -> ChipSample:
    """Draw one sample of a chip.

    Args:
        chip: The nominal chip.
        imperfections: Distributions and their factors. A kind with factor 0 leaves all values nominal, bit for bit.
        seed: Seed of the sample, an integer of at least 0.

    Raises:
        InputError: The seed is negative, or a kind applies to a device whose S-parameters come from a file.
    """
    if seed < 0:
        raise InputError(f"seed is {seed}; give a whole number from 0")
    sample = nominal_sample(chip, seed)
    for kind, sampler in _SAMPLERS.items():
        if imperfections.of(kind):
            sample = sampler(chip, imperfections, np.random.default_rng([seed, KINDS.index(kind)]), sample)
    return sample


def nominal_sample(chip: NominalChip, seed: int = 0) -> ChipSample:
    """Return a sample without imperfections: all parameters are nominal, thermal crosstalk is that of the card."""
    nets, heaters = len(chip.net_um), chip.structure.heater.size
    crosstalk = nominal_crosstalk(chip.structure, chip.process)
    return ChipSample(
        seed=seed,
        wavelength_nm=float(chip.process.guide.wavelength_nm),
        parameters={},
        guide_phase_rad=np.zeros(nets),
        guide_loss_db=np.zeros(nets),
        power_scale=np.ones(heaters),
        resistance_scale=np.ones(heaters),
        drift=np.ones(heaters),
        crosstalk=np.eye(heaters) if crosstalk is None else crosstalk.matrix,
    )


def aged_sample(sample: ChipSample) -> ChipSample:
    """Return a copy of a sample whose heater resistances have drifted, as some time after calibration."""
    return replace(sample, resistance_scale=sample.resistance_scale * sample.drift)


def drifted_sample(chip: NominalChip, sample: ChipSample, resistance: Floats, kelvin: float) -> ChipSample:
    """Return a copy of a sample some time later: its heater resistances and its temperature have changed.

    Args:
        chip: The nominal chip.
        sample: The sample.
        resistance: (H,) factor by which each resistance has changed at equal temperature.
        kelvin: Change of the temperature of the whole chip. It changes the phase of every guide, in proportion to its
            length, and every heater's resistance.

    Raises:
        InputError: The temperature changes, and the process card lacks a coefficient.
    """
    scale = sample.resistance_scale * resistance
    if not kelvin:
        return replace(sample, resistance_scale=scale)
    guide, variation = chip.process.guide, chip.process.imperfections
    if guide.index_per_k is None or variation is None:
        raise InputError(
            f"process {chip.process.name!r} has no guide.index_per_k or no imperfections.heater.resistance_per_k, so "
            "that its temperature cannot change; add them to its card"
        )
    _, length_um = _waveguides(chip)
    phase = 2.0 * np.pi * float(guide.index_per_k) * kelvin * length_um / (float(guide.wavelength_nm) / NM_PER_UM)
    scale = scale * (1.0 + float(variation.heater.resistance_per_k) * kelvin)
    return replace(_with_phases(chip, sample, phase), resistance_scale=scale)


def _couplers(chip: NominalChip, imperfections: Imperfections, generator: Generator, sample: ChipSample) -> ChipSample:
    """Sample the splitting of couplers: errors of the coupling angle; the cross power is sin²(angle)."""
    rms = imperfections.of("coupler") * float(imperfections.card.coupler.power_rms)
    sampled = {}
    for card, count in _devices(chip, ("coupler", "directional_coupler"), "coupler"):
        error = rms * generator.standard_normal(count)
        if card.model.name == "coupler":
            sampled[card.name] = {"imbalance": _imbalance(card, error)}
        else:
            angle = np.arcsin(np.sqrt(card.parameter("cross"))) + error
            sampled[card.name] = {"cross": np.sin(angle) ** 2}
    return _with_parameters(sample, sampled)


def _splitters(chip: NominalChip, imperfections: Imperfections, generator: Generator, sample: ChipSample) -> ChipSample:
    rms = imperfections.of("splitter") * float(imperfections.card.splitter.power_rms)
    sampled = {
        card.name: {"imbalance": _imbalance(card, rms * generator.standard_normal(count))}
        for card, count in _devices(chip, ("splitter",), "splitter")
    }
    return _with_parameters(sample, sampled)


def _imbalance(card: DeviceCard, error: Floats) -> Floats:
    """Return imbalances cos(2 angle) = 1 - 2 sin²(angle) for an error of the coupling angle."""
    imbalance: Floats = np.cos(np.arccos(card.parameter("imbalance")) + 2.0 * error)
    return imbalance


def _losses(chip: NominalChip, imperfections: Imperfections, generator: Generator, sample: ChipSample) -> ChipSample:
    amount, card = imperfections.of("loss"), imperfections.card.loss
    sampled: dict[str, dict[str, Floats]] = {}
    for device, count in _devices(chip, _LOSSY, "loss"):
        spread = card.grating_spread if device.model.name == "grating_coupler" else card.device_spread
        loss = device.parameter(LOSS) * np.exp(amount * float(spread) * generator.standard_normal(count))
        parameters_of_device = {LOSS: np.maximum(loss, -20.0 * np.log10(1.0 - _reflection(device)))}
        if device.model.name == "crossing":
            deviation_db = amount * float(card.crossing_crosstalk_rms_db) * generator.standard_normal(count)
            parameters_of_device["crosstalk_db"] = np.minimum(
                device.parameter("crosstalk_db") + deviation_db, _crosstalk_limit_db(device, parameters_of_device)
            )
        sampled[device.name] = parameters_of_device
    common = generator.standard_normal()

    def excess_db(length_um: Floats) -> Floats:
        local = float(card.guide_local_spread) * generator.standard_normal(length_um.size)
        factor = np.exp(amount * (float(card.guide_chip_spread) * common + local))
        excess: Floats = float(chip.process.guide.loss_db_per_cm) * length_um / UM_PER_CM * (factor - 1.0)
        return excess

    guides = excess_db(chip.net_length_um)
    for device, count in _devices(chip, ("phase_shifter",), "loss"):
        excess = excess_db(np.full(count, device.size("length_um")))
        sampled[device.name] = {LOSS: device.parameter(LOSS) + excess}
    return replace(_with_parameters(sample, sampled), guide_loss_db=sample.guide_loss_db + guides)


def _reflection(device: DeviceCard) -> float:
    """Return the reflected amplitude r of a device; passivity limits its transmitted amplitude to 1 - r."""
    reflects = "reflection_db" in device.model.parameters
    return float(10.0 ** (device.parameter("reflection_db") / 20.0)) if reflects else 0.0


def _crosstalk_limit_db(device: DeviceCard, sampled: Mapping[str, Floats]) -> Floats:
    """Return (I,) upper limits for the crosstalk of crossings: all light that is not transmitted or reflected."""
    transmitted = 10.0 ** (-sampled[LOSS] / 20.0) + _reflection(device)
    # transmission and reflection add as amplitudes; the crosstalk into both arms adds to them in quadrature
    power = np.maximum(1.0 - transmitted**2, np.finfo(np.float64).tiny) / 4.0
    limit: Floats = 10.0 * np.log10(power)
    return limit


def _width(chip: NominalChip, imperfections: Imperfections, generator: Generator, sample: ChipSample) -> ChipSample:
    return _size(chip, imperfections.card.width, imperfections.of("width"), generator, sample)


def _height(chip: NominalChip, imperfections: Imperfections, generator: Generator, sample: ChipSample) -> ChipSample:
    return _size(chip, imperfections.card.height, imperfections.of("height"), generator, sample)


def _size(
    chip: NominalChip, card: SizeVariation, amount: float, generator: Generator, sample: ChipSample
) -> ChipSample:
    """Sample phase errors from width or height: the wafer-scale field at waveguide centres plus local variation."""
    centre, length = _waveguides(chip)
    wafer = float(card.rms_nm) * length * wafer_field(centre, float(card.correlation_um), generator)
    effective = effective_length_um(length, float(card.local_correlation_um))
    local = float(card.local_rms_nm) * effective * generator.standard_normal(length.size)
    return _with_phases(chip, sample, amount * float(card.rad_per_nm) / _PER_UM * (wafer + local))


def _static(chip: NominalChip, imperfections: Imperfections, generator: Generator, sample: ChipSample) -> ChipSample:
    _, length = _waveguides(chip)
    static_phase = float(imperfections.card.phase.rms_rad) * generator.standard_normal(length.size)
    return _with_phases(chip, sample, imperfections.of("phase") * np.where(length > 0, static_phase, 0.0))


def _waveguides(chip: NominalChip) -> tuple[Floats, Floats]:
    """Return (waveguides, 2) centres and (waveguides,) lengths of all waveguides: nets, then those under heaters."""
    flat = chip.structure.circuit
    names = [flat.kinds[kind].name for kind in flat.kind[chip.structure.heater].tolist()]
    heated = np.array([chip.process.device(name).size("length_um") for name in names])
    return np.concatenate([chip.net_um, chip.heater_um]), np.concatenate([chip.net_length_um, heated])


def _with_phases(chip: NominalChip, sample: ChipSample, phase: Floats) -> ChipSample:
    """Return the sample with phases added to all waveguides, in the order of :func:`_waveguides`."""
    nets = len(chip.net_um)
    heated, sampled = phase[nets:], {}
    for group in chip.structure.devices:
        if group.heated:
            static_phase = heated[np.searchsorted(chip.structure.heater, group.instance)]
            sampled[group.name] = {PHASE: sample.parameters.get(group.name, {}).get(PHASE, 0.0) + static_phase}
    return replace(_with_parameters(sample, sampled), guide_phase_rad=sample.guide_phase_rad + phase[:nets])


def _heaters(chip: NominalChip, imperfections: Imperfections, generator: Generator, sample: ChipSample) -> ChipSample:
    amount, card, heaters = imperfections.of("heater"), imperfections.card.heater, chip.structure.heater.size

    def scale(common: float, local: float) -> Floats:
        spread = common * generator.standard_normal() + local * generator.standard_normal(heaters)
        return np.asarray(np.exp(amount * spread))

    return replace(
        sample,
        resistance_scale=scale(card.resistance_chip_spread, card.resistance_local_spread),
        power_scale=scale(card.power_pi_chip_spread, card.power_pi_local_spread),
        drift=scale(0.0, card.drift_spread),
    )


def _crosstalk(chip: NominalChip, imperfections: Imperfections, generator: Generator, sample: ChipSample) -> ChipSample:
    card, heaters = imperfections.card.crosstalk, chip.structure.heater.size
    common = float(card.chip_spread) * generator.standard_normal()
    pair = np.triu(float(card.pair_spread) * generator.standard_normal((heaters, heaters)), 1)
    factor = np.exp(imperfections.of("crosstalk") * (common + pair + pair.T))
    varied = np.minimum(factor * sample.crosstalk, 1.0)
    return replace(sample, crosstalk=np.where(np.eye(heaters, dtype=bool), 1.0, varied))


def _wavelength(
    chip: NominalChip, imperfections: Imperfections, generator: Generator, sample: ChipSample
) -> ChipSample:
    offset = imperfections.of("wavelength") * float(imperfections.card.wavelength.rms_nm) * generator.standard_normal()
    return replace(sample, wavelength_nm=sample.wavelength_nm + float(offset))


_LOSSY = (
    "coupled_guides",
    "coupler",
    "crossing",
    "directional_coupler",
    "edge_coupler",
    "grating_coupler",
    "modulator",
    "splitter",
    "taper",
)
_SAMPLERS: dict[str, Callable[[NominalChip, Imperfections, Generator, ChipSample], ChipSample]] = {
    "coupler": _couplers,
    "splitter": _splitters,
    "loss": _losses,
    "width": _width,
    "height": _height,
    "phase": _static,
    "heater": _heaters,
    "crosstalk": _crosstalk,
    "wavelength": _wavelength,
}
"""Samplers by kind. DAC resolution and the noise of laser and detectors apply during operation, not here."""


def _devices(chip: NominalChip, models: tuple[str, ...], kind: str) -> Iterator[tuple[DeviceCard, int]]:
    """Yield card and number of instances of every component that uses one of the models."""
    for group in chip.structure.devices:
        card = chip.process.device(group.name)
        if card.model.name not in models:
            continue
        if card.model.file is not None:
            raise InputError(
                f"device {group.name!r} takes its S-parameters from {card.model.file}, which has no parameter {kind} "
                f"to sample; exclude the imperfection {kind!r}, or use a parametric model"
            )
        yield card, int(group.instance.size)


def _with_parameters(sample: ChipSample, sampled: Mapping[str, Mapping[str, Floats]]) -> ChipSample:
    """Return the sample with further device parameters added."""
    merged = {name: dict(values) for name, values in sample.parameters.items()}
    for name, values in sampled.items():
        merged.setdefault(name, {}).update(values)
    return replace(sample, parameters=merged)
