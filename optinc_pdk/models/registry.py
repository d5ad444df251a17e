"""Registry of models: S-matrices of devices from the model, parameters and wavelength range in their cards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.cards import CardError, DeviceCard, Process
from optinc_pdk.cards.device_models import NO_MODEL, PATH_DIFFERENCE, SETTINGS
from optinc_pdk.circuit import Circuit
from optinc_pdk.errors import InputError
from optinc_pdk.models.coupled_guides import coupled_guides
from optinc_pdk.models.measured_data import read_measured
from optinc_pdk.models.passives import (
    coupler,
    crossing,
    directional_coupler,
    edge_coupler,
    effective_index,
    grating_coupler,
    guide_transmission,
    modulator,
    phase_shifter,
    photodiode,
    splitter,
    taper,
    terminator,
)

_ROUNDING = 1e-12


class ModelError(InputError):
    """Error: a device cannot be simulated. The message states the instance, the device and the remedy."""


class NoModelError(ModelError):
    """Error: the card of a device states no model, so that the device is drawn and compared only."""


class DeviceParameters(Protocol):
    """Protocol for the parameters of a device that a model uses: scalars, or (I,) arrays for I instances."""

    def parameter(self, key: str) -> ArrayLike:
        """Return the model parameter ``key`` of the card, such as ``loss_db``: a number or an (I,) array."""

    def size(self, key: str) -> float:
        """Return the geometry parameter ``key`` of the card, such as ``length_um``."""


Model: TypeAlias = Callable[[Process, DeviceParameters, Floats, Floats], Complexes]
"""Function of process, card, wavelengths and setting: the amplitude of a modulator, or the phase of a heater."""


@dataclass(frozen=True, eq=False)
class _Sampled:
    """A card with (I,) values for some of its model parameters."""

    card: DeviceCard
    values: Mapping[str, Floats]

    def parameter(self, key: str) -> ArrayLike:
        return self.values[key] if key in self.values else self.card.parameter(key)

    def size(self, key: str) -> float:
        return self.card.size(key)


def device_s(
    process: Process,
    device: str,
    wavelengths_nm: ArrayLike,
    phase_rad: ArrayLike = 0.0,
    instance: str = "",
    amplitude: ArrayLike = 1.0,
) -> Complexes:
    """Return the S-matrix (W, ports, ports) of a device, by the model or file of S-parameters that its card states.

    Wavelengths (W,) are in nm. ``phase_rad`` is the phase of the heater, ``amplitude`` the field amplitude of a
    modulator, -1 … 1, each a number or (W,); devices without them ignore them. ``instance`` names the instance in
    messages.

    Examples:
        >>> from optinc_pdk.cards import load_process
        >>> from optinc_pdk.models import device_s
        >>> device_s(load_process(), "mmi2x2", [1549.0, 1550.0]).shape
        (2, 4, 4)

    Raises:
        NoModelError: The card states no model.
        ModelError: The device or its model does not exist, a wavelength is outside the card's or the file's range, or
            the file has other ports.
        InputError: A file of S-parameters is unusable.
    """
    where = f"instance {instance!r}: " if instance else ""
    try:
        card = process.device(device)
    except CardError as fault:
        raise ModelError(f"{where}{fault}") from fault
    wavelengths = np.atleast_1d(np.asarray(wavelengths_nm, dtype=np.float64))
    setting = np.asarray(amplitude if card.model.name in MODULATORS else phase_rad, dtype=np.float64)
    if card.model.file is not None:
        _check_range(card, wavelengths, where)
        return _measured(card, card.model.file, wavelengths, setting, where)
    model = MODELS.get(card.model.name)
    if model is None and card.model.name == NO_MODEL:
        path = next(iter(process.files(f"devices/{device}.yml")), process.folder / f"devices/{device}.yml")
        raise NoModelError(
            f"{where}device {device!r} has no model, so it cannot be simulated; add 'model' to {path}: a name with "
            f"parameters ({', '.join(sorted(MODELS))}), or a file of S-parameters"
        )
    if model is None:
        raise ModelError(
            f"{where}device {device!r} names the model {card.model.name!r}, which does not exist; "
            f"models are {', '.join(sorted(MODELS))}, or give a file of S-parameters by 'file'"
        )
    _check_range(card, wavelengths, where)
    return model(process, card, wavelengths, setting)


def sampled_s(
    process: Process,
    device: str,
    wavelengths_nm: ArrayLike,
    parameters: Mapping[str, Floats],
    phase_rad: ArrayLike = 0.0,
) -> Complexes:
    """Return the S-matrices (W, I, ports, ports) of I instances of a device whose model parameters differ.

    Modulators have amplitude 1.

    Args:
        process: Process with the card of the device.
        device: Name of the device.
        wavelengths_nm: (W,) wavelengths.
        parameters: (I,) values of each model parameter that differs between the instances; if empty, I is 1.
        phase_rad: Phase of the heater, broadcast to (W, I).

    Raises:
        CardError: The device does not exist, or its model lacks a parameter.
        ModelError: Its S-parameters come from a file, or a wavelength is outside its range.
        ValueError: The device would have gain.
    """
    card = process.device(device)
    if card.model.file is not None:
        raise ModelError(
            f"device {device!r} takes its S-parameters from {card.model.file}, which has no parameters to vary; "
            "leave its imperfections out, or use a model"
        )
    for key in parameters:
        if key not in SETTINGS.get(card.model.name, ()):
            card.parameter(key)
    wavelengths = np.atleast_1d(np.asarray(wavelengths_nm, dtype=np.float64))
    _check_range(card, wavelengths, "")
    setting = np.asarray(1.0 if card.model.name in MODULATORS else phase_rad, dtype=np.float64)
    s = MODELS[card.model.name](process, _Sampled(card, parameters), wavelengths[:, np.newaxis], setting)
    return np.broadcast_to(s, (wavelengths.size, *s.shape[1:]))


def instances_s(
    process: Process, device: str, wavelengths_nm: ArrayLike, circuit: Circuit, instances: Ints
) -> Complexes:
    """Return the S-matrices (W, I, ports, ports) of instances (I,) of a device in a flat circuit.

    I is 1 if all are equal. All heaters are off and modulators at amplitude 1.

    Raises:
        ModelError: See :func:`device_s`; also if an instance lacks a setting that the model needs.
    """
    settings = instance_settings(process, device, circuit, instances)
    if settings and process.device(device).model.file is None:
        return sampled_s(process, device, wavelengths_nm, settings)
    name = circuit.instances[instances[0]]
    s = device_s(process, device, wavelengths_nm, instance=name)[:, np.newaxis]
    change = _length_change(process, device, wavelengths_nm, circuit, instances)
    return s if change is None else s * change[..., np.newaxis, np.newaxis]


def _length_change(
    process: Process, device: str, wavelengths_nm: ArrayLike, circuit: Circuit, instances: Ints
) -> Complexes | None:
    """Return the field transmissions (W, I) of heated guides over that of the card's length; None if all are as long.

    Raises:
        ModelError: An instance has another length, and the card's S-parameters are measured.
    """
    card = process.devices.get(device)
    column = circuit.settings.get("length_um")
    if card is None or card.model.name != "phase_shifter" or column is None:
        return None
    standard = card.size("length_um")
    length = np.where(np.isnan(column[instances]), standard, column[instances])
    other = np.flatnonzero(length != standard)
    if not other.size:
        return None
    if card.model.file is not None:
        name = circuit.instances[instances[other[0]]]
        raise ModelError(
            f"instance {name!r} of {device!r} is {length[other[0]]:g} µm long, the measured one of its card "
            f"{standard:g} µm; draw it as long, or give the card a model"
        )
    wavelengths = np.atleast_1d(np.asarray(wavelengths_nm, dtype=np.float64))[:, np.newaxis]
    change: Complexes = net_transmission(process, length, wavelengths) / net_transmission(
        process, standard, wavelengths
    )
    return change


def instance_settings(process: Process, device: str, circuit: Circuit, instances: Ints) -> dict[str, Floats]:
    """Return the settings (I,) that a device's model takes from instances (I,) of a circuit and not from the card.

    Raises:
        ModelError: An instance lacks a setting, or its value is negative or not finite.
    """
    card = process.devices.get(device)
    settings: dict[str, Floats] = {}
    for key in SETTINGS.get(card.model.name, ()) if card is not None else ():
        column = circuit.settings.get(key, np.full(len(circuit.instances), np.nan))
        settings[key] = np.asarray(column[instances], dtype=np.float64)
        least = -np.inf if key == PATH_DIFFERENCE else 0.0
        wrong = np.flatnonzero(~(settings[key] >= least) | np.isinf(settings[key]))
        if wrong.size:
            name, value = circuit.instances[instances[wrong[0]]], settings[key][wrong[0]]
            fact = f"has no setting {key!r}" if np.isnan(value) else f"has the setting {key} = {value:g}"
            raise ModelError(f"instance {name!r} of {device!r} {fact}; give a length in µm")
    return settings


def net_transmission(process: Process, length_um: ArrayLike, wavelengths_nm: ArrayLike) -> Complexes:
    """Return the field transmission of the process's strip guide between devices; lengths and wavelengths broadcast."""
    strip = process.guide
    return guide_transmission(
        length_um,
        wavelengths_nm,
        index=strip.index,
        group_index=strip.group_index,
        reference_nm=strip.wavelength_nm,
        loss_db_per_cm=strip.loss_db_per_cm,
    )


def check_wavelengths(process: Process, wavelengths_nm: ArrayLike) -> None:
    """Refuse wavelengths in nm that are outside the ranges of all devices of a process that state a range.

    A circuit with at least one of these devices cannot be simulated there. Within the union of the ranges, the devices
    of a circuit decide.

    Raises:
        ModelError: A wavelength is outside all of these ranges.
    """
    keys = {"wavelength_min_nm", "wavelength_max_nm"}
    stated = [card.limits for card in process.devices.values() if keys & set(card.limits) or card.model.file]
    low = min((float(one.get("wavelength_min_nm", -np.inf)) for one in stated), default=-np.inf)
    high = max((float(one.get("wavelength_max_nm", np.inf)) for one in stated), default=np.inf)
    wavelengths = np.atleast_1d(np.asarray(wavelengths_nm, dtype=np.float64))
    wrong = wavelengths[~((wavelengths >= low) & (wavelengths <= high))]
    if wrong.size:
        raise ModelError(
            f"wavelength {wrong[0]:g} nm is outside the range of all devices of process {process.name!r}, "
            f"{low:g} … {high:g} nm; choose one in this range"
        )


def _check_range(card: DeviceCard, wavelengths: Floats, where: str) -> None:
    low = card.limits.get("wavelength_min_nm", -np.inf)
    high = card.limits.get("wavelength_max_nm", np.inf)
    wrong = wavelengths[~((wavelengths >= low) & (wavelengths <= high))]
    if wrong.size:
        raise ModelError(
            f"{where}wavelength {wrong[0]:g} nm is outside the range of device {card.name!r}, "
            f"{float(low):g} … {float(high):g} nm; simulate within it"
        )


def _measured(card: DeviceCard, path: Path, wavelengths: Floats, setting: Floats, where: str) -> Complexes:
    """Return a file's S-parameters; transmissions are multiplied by the heater's phase or the drive's amplitude."""
    try:
        measured = read_measured(path)
    except InputError as fault:
        raise type(fault)(f"{where}device {card.name!r}: {fault}") from fault
    expected = card.ports.optical
    ports = expected if measured.ports is None else measured.ports
    if sorted(ports) != sorted(expected) or measured.s.shape[1] != len(expected):
        names = ", ".join(measured.ports) if measured.ports else f"{measured.s.shape[1]} without names"
        raise ModelError(
            f"{where}{path} has the ports {names}, device {card.name!r} {', '.join(expected)}; make them equal"
        )
    low, high = measured.wavelengths_nm[[0, -1]].tolist()
    # converting a wavelength to a frequency and back may leave the range by a rounding error
    inside = np.clip(wavelengths, low, high)
    wrong = wavelengths[~(np.abs(wavelengths - inside) <= _ROUNDING * high)]
    if wrong.size:
        raise ModelError(
            f"{where}wavelength {wrong[0]:g} nm is outside the data of device {card.name!r} in {path}, "
            f"{low:g} … {high:g} nm; simulate within them"
        )
    order = [ports.index(port) for port in expected]
    s = measured.interpolate(inside)[:, order][:, :, order]
    factor = setting if card.model.name in MODULATORS else np.exp(1j * setting)
    through = ~np.eye(len(expected), dtype=bool)
    s[:, through] *= np.broadcast_to(factor, inside.shape)[:, np.newaxis]
    return s


def _phase_shifter(process: Process, card: DeviceParameters, wavelengths: Floats, phase: Floats) -> Complexes:
    bare = net_transmission(process, card.size("length_um"), wavelengths)
    return phase_shifter(bare, phase, card.parameter("loss_db"))


def _modulator(process: Process, card: DeviceParameters, wavelengths: Floats, amplitude: Floats) -> Complexes:
    return modulator(wavelengths, card.parameter("loss_db"), card.parameter("reflection_db"), amplitude)


def _coupled_guides(process: Process, card: DeviceParameters, wavelengths: Floats, phase: Floats) -> Complexes:
    try:
        length, difference, *guides = (card.parameter(key) for key in SETTINGS["coupled_guides"][1:])
    except CardError as fault:
        raise ModelError(
            f"two coupled guides are simulated by their settings {', '.join(SETTINGS['coupled_guides'])}; "
            "simulate a circuit whose instances have them"
        ) from fault
    first, second = (net_transmission(process, np.asarray(guide) / 2, wavelengths) for guide in guides)
    angle = np.asarray(card.parameter("coupling_per_um")) * np.asarray(length)
    loss, center, slope, back = (
        card.parameter(key) for key in ("loss_db", "center_nm", "slope_per_nm", "reflection_db")
    )
    strip = process.guide
    index = effective_index(wavelengths, strip.index, strip.group_index, strip.wavelength_nm)
    mismatch = np.pi * index * np.asarray(difference) / (wavelengths * 1e-3)
    return coupled_guides(wavelengths, first, second, angle, mismatch, loss, center, slope, back)


def _of_parameters(model: Callable[..., Complexes], *keys: str) -> Model:
    """Return the model of a device that takes nothing but wavelengths and parameters of its card."""
    return lambda process, card, wavelengths, setting: model(wavelengths, *(card.parameter(key) for key in keys))


MODULATORS = frozenset({"modulator"})
"""Models whose setting is an amplitude; for the others it is a phase."""
MODELS: dict[str, Model] = {
    "coupled_guides": _coupled_guides,
    "coupler": _of_parameters(coupler, "loss_db", "imbalance", "reflection_db"),
    "crossing": _of_parameters(crossing, "loss_db", "crosstalk_db", "reflection_db"),
    "directional_coupler": _of_parameters(
        directional_coupler, "loss_db", "cross", "center_nm", "slope_per_nm", "reflection_db"
    ),
    "edge_coupler": _of_parameters(edge_coupler, "loss_db", "reflection_db"),
    "grating_coupler": _of_parameters(grating_coupler, "loss_db", "bandwidth_3db_nm", "center_nm", "reflection_db"),
    "modulator": _modulator,
    "photodiode": _of_parameters(photodiode, "reflection_db"),
    "phase_shifter": _phase_shifter,
    "splitter": _of_parameters(splitter, "loss_db", "imbalance", "reflection_db"),
    "taper": _of_parameters(taper, "loss_db"),
    "terminator": _of_parameters(terminator, "reflection_db"),
}
"""Function of each model by the name that cards use."""
