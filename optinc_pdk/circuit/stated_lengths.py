"""Lengths that instances of gdsfactory's netlists state, by ``settings``, by ``info`` or by both, which must agree."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from optinc_pdk.cards.device_models import PATH_DIFFERENCE
from optinc_pdk.circuit.errors import NetlistError
from optinc_pdk.circuit.schematic_cells import SchematicInstance
from optinc_pdk.circuit.values import number_of

TOLERANCE_UM = 0.0011
"""Difference of a length in ``settings`` and in ``info`` that rounding explains: 1 nm, and the rounding of numbers."""
LONGEST_UM = 1.0e9
"""Longest part of a guide."""
ARGUMENTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "straight": {"length": ("length",)},
    "wire_straight": {"length": ("length",)},
    "coupler": {"gap": ("gap_um",)},
    "coupler_ring": {"gap": ("gap_um",)},
    "coupler_ring_bend": {"coupler_gap": ("gap_um",)},
    "coupler_straight": {"gap": ("gap_um",), "length": ("guide_1_um", "guide_2_um")},
}
"""Arguments of cells, and the entries of ``info`` that are the same quantity.

The argument ``length`` of other cells is that of one of their parts.
"""


def check_contradictions(instance: str, part: SchematicInstance, keys: tuple[str, ...] = ()) -> None:
    """Check that the lengths that an instance states in ``settings`` are those in its ``info``.

    Args:
        instance: Full name of the instance, for messages.
        part: The instance.
        keys: Entries that have the same name in both.

    Raises:
        NetlistError: A length is no number, is negative, or differs; the message names instance, keys and both values.
    """
    same = {key: (key,) for key in keys} | dict(ARGUMENTS.get(part.component, {}))
    for argument, entries in same.items():
        if part.settings.get(argument) is None:
            continue
        given = stated_um(f"instance {instance!r}: {argument} in settings", part.settings[argument], argument)
        for key in entries:
            if part.info.get(key) is None:
                continue
            found = stated_um(f"instance {instance!r}: {key} in info", part.info[key], key)
            if abs(found - given) > TOLERANCE_UM:
                raise NetlistError(
                    f"instance {instance!r}: {argument} is {given:.10g} µm in settings, but {key} is {found:.10g} µm "
                    "in info; correct one of them, or write the netlist again with get_netlist"
                )


def argument_settings(instance: str, part: SchematicInstance, keys: Collection[str]) -> dict[str, float]:
    """Return the settings of a device that are arguments of its cell.

    Args:
        instance: Full name of the instance, for messages.
        part: The instance.
        keys: Settings of the device.

    Raises:
        NetlistError: An argument is no length.
    """
    return {
        entry: stated_um(f"instance {instance!r}: {argument}", part.settings[argument])
        for argument, entries in ARGUMENTS.get(part.component, {}).items()
        if part.settings.get(argument) is not None
        for entry in entries
        if entry in keys
    }


def stated_um(where: str, value: object, key: str = "length") -> float:
    """Check that a value is the length of a guide or of a part of a device in µm.

    Args:
        where: What states the value, for messages.
        value: Value.
        key: Name of the length; differences may be negative.

    Raises:
        NetlistError: It is not.
    """
    length = number_of(where, value)
    least = -LONGEST_UM if key == PATH_DIFFERENCE else 0.0
    if not least <= length <= LONGEST_UM:
        raise NetlistError(f"{where} is {length:g} µm, possible are {least:g} to {LONGEST_UM:g} µm; correct it")
    return length
