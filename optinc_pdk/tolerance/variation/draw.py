"""One chip of many: what its devices, guides, heaters and laser are, drawn from the card's distributions.

Every kind of imperfection has its own stream of random numbers, from the seed and the kind's name: more or less of one
kind leaves the others' numbers as they are, and twice the amount is twice the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import KINDS, Device
from optinc_pdk.cards.variation import SizeVariation
from optinc_pdk.files import InputError
from optinc_pdk.models.guides import UM_PER_CM
from optinc_pdk.simulate.warmth import nominal_crosstalk
from optinc_pdk.tolerance.variation.chip import Chip
from optinc_pdk.tolerance.variation.field import path_length_um, wafer_field
from optinc_pdk.tolerance.variation.imperfections import Imperfections

Floats = NDArray[np.float64]
Generator = np.random.Generator

PHASE = "phase_rad"
"""Among a device's parameters, the static phase of what passes it."""
LOSS = "loss_db"
_PER_UM = 100.0
"""Lengths that sensitivities to width and height are stated for, in µm."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One made chip with n nets and H heaters. Calibration must not see it.

    Attributes:
        seed: What it was drawn from.
        wavelength_nm: Wavelength of its laser.
        parameters: Component to parameter of its model to (I,) values, in the order of the flat circuit; components
            and parameters that do not vary are left out. ``phase_rad`` is a static phase at the process's wavelength.
        guide_phase_rad: (n,) what each net's phase is off, at the process's wavelength.
        guide_loss_db: (n,) what its loss is off.
        power_scale: (H,) power per π of each heater over the card's.
        resistance_scale: (H,) resistance of each heater over the layout's.
        drift: (H,) what resistances change by in use, see :func:`aged`.
        crosstalk: (H, H) share of heater j's phase in the guide under heater i, 1 on the diagonal.
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


def draw(chip: Chip, imperfections: Imperfections, seed: int) -> Sample:
    """Draw one chip.

    Args:
        chip: As it was drawn.
        imperfections: Distributions, and how much of each; a kind without amount leaves everything as it is, to the
            last bit.
        seed: Any whole number from 0.

    Raises:
        InputError: A seed below 0, or imperfections of a device whose S-parameters are a file's.
    """
    if seed < 0:
        raise InputError(f"seed is {seed}; give a whole number from 0")
    sample = nominal(chip, seed)
    for kind, make in _MAKE.items():
        if imperfections.of(kind):
            sample = make(chip, imperfections, np.random.default_rng([seed, KINDS.index(kind)]), sample)
    return sample


def nominal(chip: Chip, seed: int = 0) -> Sample:
    """The chip without any imperfection: its heaters warm each other as the card expects."""
    nets, heaters = len(chip.net_um), chip.structure.heater.size
    crosstalk = nominal_crosstalk(chip.structure, chip.process)
    return Sample(
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


def aged(sample: Sample) -> Sample:
    """The same chip some time after its calibration: resistances have drifted."""
    return replace(sample, resistance_scale=sample.resistance_scale * sample.drift)


def _couplers(chip: Chip, wanted: Imperfections, generator: Generator, sample: Sample) -> Sample:
    """Splitting of couplers: errors of the coupling angle, whose cross share is sin²."""
    rms = wanted.of("coupler") * float(wanted.card.coupler.power_rms)
    drawn = {}
    for card, count in _devices(chip, ("coupler", "directional_coupler"), "coupler"):
        error = rms * generator.standard_normal(count)
        if card.model.name == "coupler":
            drawn[card.name] = {"imbalance": _imbalance(card, error)}
        else:
            angle = np.arcsin(np.sqrt(card.parameter("cross"))) + error
            drawn[card.name] = {"cross": np.sin(angle) ** 2}
    return _with(sample, drawn)


def _splitters(chip: Chip, wanted: Imperfections, generator: Generator, sample: Sample) -> Sample:
    rms = wanted.of("splitter") * float(wanted.card.splitter.power_rms)
    drawn = {
        card.name: {"imbalance": _imbalance(card, rms * generator.standard_normal(count))}
        for card, count in _devices(chip, ("splitter",), "splitter")
    }
    return _with(sample, drawn)


def _imbalance(card: Device, error: Floats) -> Floats:
    """Imbalances cos 2 angle = 1 - 2 sin² angle, with an error of the angle."""
    imbalance: Floats = np.cos(np.arccos(card.parameter("imbalance")) + 2.0 * error)
    return imbalance


def _losses(chip: Chip, wanted: Imperfections, generator: Generator, sample: Sample) -> Sample:
    amount, card = wanted.of("loss"), wanted.card.loss
    drawn: dict[str, dict[str, Floats]] = {}
    for device, count in _devices(chip, _LOSSY, "loss"):
        spread = card.grating_spread if device.model.name == "grating_coupler" else card.device_spread
        loss = device.parameter(LOSS) * np.exp(amount * float(spread) * generator.standard_normal(count))
        mine = {LOSS: np.maximum(loss, -20.0 * np.log10(1.0 - _reflection(device)))}
        if device.model.name == "crossing":
            turn = amount * float(card.crossing_crosstalk_rms_db) * generator.standard_normal(count)
            mine["crosstalk_db"] = np.minimum(device.parameter("crosstalk_db") + turn, _most_crosstalk_db(device, mine))
        drawn[device.name] = mine
    common = generator.standard_normal()

    def excess_db(length_um: Floats) -> Floats:
        local = float(card.guide_local_spread) * generator.standard_normal(length_um.size)
        factor = np.exp(amount * (float(card.guide_chip_spread) * common + local))
        over: Floats = float(chip.process.guide.loss_db_per_cm) * length_um / UM_PER_CM * (factor - 1.0)
        return over

    guides = excess_db(chip.net_length_um)
    for device, count in _devices(chip, ("phase_shifter",), "loss"):
        over = excess_db(np.full(count, device.size("length_um")))
        drawn[device.name] = {LOSS: device.parameter(LOSS) + over}
    return replace(_with(sample, drawn), guide_loss_db=sample.guide_loss_db + guides)


def _reflection(device: Device) -> float:
    """Amplitude that a device reflects; it lets through no more than what this leaves of 1."""
    reflects = "reflection_db" in device.model.parameters
    return float(10.0 ** (device.parameter("reflection_db") / 20.0)) if reflects else 0.0


def _most_crosstalk_db(device: Device, drawn: Mapping[str, Floats]) -> Floats:
    """(I,) crosstalk of crossings that turn all light into the crossed arms that does not go straight on."""
    straight = 10.0 ** (-drawn[LOSS] / 20.0) + _reflection(device)
    # straight on and reflected add up to an amplitude, both arms' crosstalk to another in quadrature
    power = np.maximum(1.0 - straight**2, np.finfo(np.float64).tiny) / 4.0
    most: Floats = 10.0 * np.log10(power)
    return most


def _width(chip: Chip, wanted: Imperfections, generator: Generator, sample: Sample) -> Sample:
    return _size(chip, wanted.card.width, wanted.of("width"), generator, sample)


def _height(chip: Chip, wanted: Imperfections, generator: Generator, sample: Sample) -> Sample:
    return _size(chip, wanted.card.height, wanted.of("height"), generator, sample)


def _size(chip: Chip, card: SizeVariation, amount: float, generator: Generator, sample: Sample) -> Sample:
    """Phases of guides that are wider or higher than drawn: as the wafer is at their middle, and by themselves."""
    place, length = _pieces(chip)
    wafer = float(card.rms_nm) * length * wafer_field(place, float(card.correlation_um), generator)
    counted = path_length_um(length, float(card.local_correlation_um))
    local = float(card.local_rms_nm) * counted * generator.standard_normal(length.size)
    return _turned(chip, sample, amount * float(card.rad_per_nm) / _PER_UM * (wafer + local))


def _static(chip: Chip, wanted: Imperfections, generator: Generator, sample: Sample) -> Sample:
    _, length = _pieces(chip)
    turn = float(wanted.card.phase.rms_rad) * generator.standard_normal(length.size)
    return _turned(chip, sample, wanted.of("phase") * np.where(length > 0, turn, 0.0))


def _pieces(chip: Chip) -> tuple[Floats, Floats]:
    """(pieces, 2) middles and (pieces,) lengths of all guides: nets, then those under heaters."""
    flat = chip.structure.circuit
    names = [flat.kinds[kind].name for kind in flat.kind[chip.structure.heater].tolist()]
    heated = np.array([chip.process.device(name).size("length_um") for name in names])
    return np.concatenate([chip.net_um, chip.heater_um]), np.concatenate([chip.net_length_um, heated])


def _turned(chip: Chip, sample: Sample, phase: Floats) -> Sample:
    """With phases added to all guides, in the order of :func:`_pieces`."""
    nets = len(chip.net_um)
    heated, drawn = phase[nets:], {}
    for group in chip.structure.devices:
        if group.heated:
            mine = heated[np.searchsorted(chip.structure.heater, group.instance)]
            drawn[group.name] = {PHASE: sample.parameters.get(group.name, {}).get(PHASE, 0.0) + mine}
    return replace(_with(sample, drawn), guide_phase_rad=sample.guide_phase_rad + phase[:nets])


def _heaters(chip: Chip, wanted: Imperfections, generator: Generator, sample: Sample) -> Sample:
    amount, card, heaters = wanted.of("heater"), wanted.card.heater, chip.structure.heater.size

    def scale(common: float, local: float) -> Floats:
        spread = common * generator.standard_normal() + local * generator.standard_normal(heaters)
        return np.asarray(np.exp(amount * spread))

    return replace(
        sample,
        resistance_scale=scale(card.resistance_chip_spread, card.resistance_local_spread),
        power_scale=scale(card.power_pi_chip_spread, card.power_pi_local_spread),
        drift=scale(0.0, card.drift_spread),
    )


def _crosstalk(chip: Chip, wanted: Imperfections, generator: Generator, sample: Sample) -> Sample:
    card, heaters = wanted.card.crosstalk, chip.structure.heater.size
    common = float(card.chip_spread) * generator.standard_normal()
    pair = np.triu(float(card.pair_spread) * generator.standard_normal((heaters, heaters)), 1)
    factor = np.exp(wanted.of("crosstalk") * (common + pair + pair.T))
    varied = np.minimum(factor * sample.crosstalk, 1.0)
    return replace(sample, crosstalk=np.where(np.eye(heaters, dtype=bool), 1.0, varied))


def _wavelength(chip: Chip, wanted: Imperfections, generator: Generator, sample: Sample) -> Sample:
    offset = wanted.of("wavelength") * float(wanted.card.wavelength.rms_nm) * generator.standard_normal()
    return replace(sample, wavelength_nm=sample.wavelength_nm + float(offset))


_LOSSY = (
    "coupler",
    "crossing",
    "directional_coupler",
    "edge_coupler",
    "grating_coupler",
    "modulator",
    "splitter",
    "taper",
)
_MAKE: dict[str, Callable[[Chip, Imperfections, Generator, Sample], Sample]] = {
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
"""What is drawn with a chip. The drive's bits and the noise of laser and detectors come in when it is used."""


def _devices(chip: Chip, models: tuple[str, ...], kind: str) -> Iterator[tuple[Device, int]]:
    """Cards and numbers of instances of the components with one of these models."""
    for group in chip.structure.devices:
        card = chip.process.device(group.name)
        if card.model.name not in models:
            continue
        if card.model.file is not None:
            raise InputError(
                f"device {group.name!r} takes its S-parameters from {card.model.file}, so that it has no {kind} that "
                f"could vary; leave out the imperfection {kind!r}, or use a model"
            )
        yield card, int(group.instance.size)


def _with(sample: Sample, drawn: Mapping[str, Mapping[str, Floats]]) -> Sample:
    """With parameters of devices beside those that are there."""
    merged = {name: dict(values) for name, values in sample.parameters.items()}
    for name, values in drawn.items():
        merged.setdefault(name, {}).update(values)
    return replace(sample, parameters=merged)
