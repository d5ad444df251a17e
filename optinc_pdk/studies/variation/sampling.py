"""Monte-Carlo samples of a chip: parameters of devices, waveguides, heaters and laser from the card's distributions.

Every kind of imperfection has its own random stream, seeded with the sample's seed and the kind's index. Scaling one
kind therefore does not change the others, and a factor of 2 on a kind doubles the same error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import KINDS, DeviceCard, Process, Variation
from optinc_pdk.cards.variation import SizeVariation
from optinc_pdk.errors import InputError
from optinc_pdk.models.passives import UM_PER_CM
from optinc_pdk.simulate.heater_drive import nominal_crosstalk
from optinc_pdk.studies.variation.nominal_chip import NominalChip

Generator = np.random.Generator

PHASE = "phase_rad"
"""Key of a device's static phase error among its sampled parameters."""
LOSS = "loss_db"
NM_PER_UM = 1000.0
_PER_UM = 100.0
"""Waveguide length in µm that the sensitivities to width and height refer to."""
_TRUNCATED_VARIANCE = 1e-12
"""Largest variance of the truncated terms; the field has variance 1."""


@dataclass(frozen=True)
class Imperfections:
    """The imperfections of a process card with a scaling factor for each kind.

    Attributes:
        card: Distributions of all kinds.
        amount: Factor on the card's spread by kind: 1 is the card's spread, 0 switches the kind off. Kinds that are
            missing are switched off.

    Raises:
        InputError: A kind is unknown, or an amount is negative or not finite.
    """

    card: Variation
    amount: Mapping[str, float]

    def __post_init__(self) -> None:
        """Validate kinds and amounts."""
        for kind, amount in self.amount.items():
            _refuse_unknown(kind)
            if not 0.0 <= amount < math.inf:
                raise InputError(f"amount of {kind!r} is {amount}; give a factor of the card's, 0 or more")

    def of(self, kind: str) -> float:
        """Return the factor on the card's spread for one kind, 0 if it is switched off; InputError if it is unknown."""
        _refuse_unknown(kind)
        return self.amount.get(kind, 0.0)

    def only(self, *kinds: str) -> Imperfections:
        """Return a copy with the given kinds only; all others are switched off."""
        return replace(self, amount={kind: self.of(kind) for kind in kinds})

    def without(self, *kinds: str) -> Imperfections:
        """Return a copy in which the given kinds are switched off."""
        return replace(self, amount={**self.amount, **dict.fromkeys(kinds, 0.0)})

    def scaled(self, kind: str, factor: float) -> Imperfections:
        """Return a copy in which the amount of one kind is multiplied by a factor.

        Examples:
            >>> from optinc_pdk.cards import load_process
            >>> from optinc_pdk.studies import imperfections
            >>> imperfections(load_process()).scaled("dac", 0.5).of("dac")
            0.5
        """
        return replace(self, amount={**self.amount, kind: factor * self.of(kind)})

    @property
    def effective_bits(self) -> float | None:
        """Effective bits of the drive's DACs, whose step the factor multiplies; None if voltages are not rounded."""
        amount = self.of("dac")
        return float(self.card.dac.effective_bits) - math.log2(amount) if amount else None


def imperfections(process: Process) -> Imperfections:
    """Return all imperfections of a process, each with factor 1.

    Raises:
        InputError: The process card has no imperfections.
    """
    if process.imperfections is None:
        raise InputError(f"process {process.name!r} has no 'imperfections' in its card; add the section")
    return Imperfections(process.imperfections, dict.fromkeys(KINDS, 1.0))


def _refuse_unknown(kind: str) -> None:
    if kind not in KINDS:
        raise InputError(f"there is no imperfection {kind!r}; kinds are {', '.join(KINDS)}")


def wafer_field(position_um: Floats, correlation_um: float, generator: np.random.Generator) -> Floats:
    """Sample a Gaussian random field of variance 1 and autocorrelation exp(-(distance / correlation)²) at (n, 2)
    points.

    The autocorrelation of two points separates into factors of x and of y. Along each axis, in correlation lengths,
    exp(-(x - x')²) = Σ_k f_k(x) f_k(x') with f_k(x) = exp(-x²) (√2 x)^k / √(k!). The field is Σ z_km f_k(x) f_m(y) with
    independent standard normal z, of which the number depends only on the extent of the points; the cost is linear in
    the number of points. f_k(x)² are the probabilities of a Poisson distribution of mean 2 x²; the sum over k is
    truncated where the remaining probability is negligible. A Cholesky factor of the covariance matrix would cost cubic
    time and is numerically singular for close points.

    Source:
        Autocorrelation and lengths as in SiEPIC's Monte-Carlo file, whose virtual wafer is white noise behind a
            Gaussian filter. The expansion is the power series of exp(2 x x').
    """
    if not len(position_um):
        return np.zeros(0)
    centre = (position_um.max(axis=0) + position_um.min(axis=0)) / 2.0
    x_terms, y_terms = (_terms((position_um[:, i] - centre[i]) / correlation_um) for i in (0, 1))
    weights = generator.standard_normal((x_terms.shape[1], y_terms.shape[1]))
    field: Floats = np.einsum("nk,nk->n", x_terms @ weights, y_terms)
    return field


def effective_length_um(length_um: Floats, correlation_um: float) -> Floats:
    """Return the effective length in µm of waveguides, any shape, for phase errors from local index variation along
    them.

    Its square is ∫∫ exp(-((s - t)/l)²) ds dt over the waveguide of length L with the correlation length l: L² for L ≪
    l, √π l L for L ≫ l.
    """
    from scipy.special import erf

    ratio = np.asarray(length_um, dtype=np.float64) / correlation_um
    square = np.sqrt(np.pi) * ratio * erf(ratio) - (1.0 - np.exp(-(ratio**2)))
    # for short guides, rounding can make the square negative
    effective: Floats = correlation_um * np.sqrt(np.maximum(square, 0.0))
    return effective


def _terms(x: Floats) -> Floats:
    """Return (n, terms) values f_k at coordinates (n,) in correlation lengths."""
    mean = 2.0 * float(np.max(x**2))
    terms, remaining = 1, -np.expm1(-mean)
    probability = np.exp(-mean)
    while remaining > _TRUNCATED_VARIANCE:
        probability *= mean / terms
        remaining -= probability
        terms += 1
    values = np.empty((x.size, terms))
    values[:, 0] = np.exp(-(x**2))
    for k in range(1, terms):
        values[:, k] = values[:, k - 1] * x * np.sqrt(2.0 / k)
    return values


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
    """Draw one sample of a chip. A kind with factor 0 leaves all values nominal, bit for bit.

    Examples:
        >>> from optinc_pdk.cards import load_process
        >>> from optinc_pdk.studies import draw_sample, imperfections, read_chip
        >>> process = load_process()
        >>> chip = read_chip("out/mine.gds", "out/mine.pic.yml", "out/mine.bias.yml", process)  # doctest: +SKIP
        >>> sample = draw_sample(chip, imperfections(process), seed=1)  # doctest: +SKIP

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


def _size(
    kind: str, chip: NominalChip, imperfections: Imperfections, generator: Generator, sample: ChipSample
) -> ChipSample:
    """Sample phase errors from width or height: the wafer-scale field at waveguide centres plus local variation."""
    card: SizeVariation = getattr(imperfections.card, kind)
    centre, length = _waveguides(chip)
    wafer = float(card.rms_nm) * length * wafer_field(centre, float(card.correlation_um), generator)
    effective = effective_length_um(length, float(card.local_correlation_um))
    local = float(card.local_rms_nm) * effective * generator.standard_normal(length.size)
    return _with_phases(chip, sample, imperfections.of(kind) * float(card.rad_per_nm) / _PER_UM * (wafer + local))


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
    "width": partial(_size, "width"),
    "height": partial(_size, "height"),
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
