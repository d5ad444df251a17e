"""Names of devices, ports and lengths in netlists of other PDKs, as the cards of a process state them."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

from optinc_pdk.cards import DeviceCard, Process
from optinc_pdk.circuit.errors import NetlistError
from optinc_pdk.circuit.values import number_of


class NameTable:
    """The names by which netlists call the devices of a process."""

    def __init__(self, process: Process) -> None:
        """Collect the names of all device cards."""
        self._devices = process.devices
        self._cells: dict[str, list[DeviceCard]] = {}
        for card in process.devices.values():
            if card.netlist is not None:
                for cell in card.netlist.cells or (card.name,):
                    self._cells.setdefault(cell, []).append(card)

    def known(self) -> list[str]:
        """Return the names of all devices and of the cells that draw them, sorted."""
        return sorted({*self._devices, *self._cells})

    def device(self, instance: str, component: str, settings: Mapping[str, Any]) -> str | None:
        """Return the device that a component is.

        Args:
            instance: Full name of the instance, for messages.
            component: Name of its component.
            settings: Its arguments, of which a netlist may omit those of default values.

        Returns:
            Name of the device; None if the component is none.

        Raises:
            NetlistError: The component has other dimensions than every device that it could be, or several devices are
                possible.
        """
        cards = self._cells.get(component)
        if cards is None:
            return component if component in self._devices else None
        fitting = [card for card in cards if card.netlist is not None and not card.netlist.differing(settings)]
        if len(fitting) == 1:
            return fitting[0].name
        names = ", ".join(card.name for card in fitting or cards)
        if fitting:
            keys = sorted({key for card in fitting if card.netlist is not None for key in card.netlist.settings})
            raise NetlistError(
                f"instance {instance!r}: component {component!r} could be each of {names}; state its settings "
                f"{', '.join(keys)}"
            )
        raise NetlistError(
            f"instance {instance!r}: component {component!r} differs from {names} by its settings: "
            f"{'; '.join(map(_differences, cards, [settings] * len(cards)))}; draw it like one of them, or add a card "
            "for it"
        )

    def port(self, device: str, name: str) -> str:
        """Return the port of a device's card that a netlist calls by a name."""
        names = self._devices[device].netlist
        return name if names is None else names.ports.get(name, name)

    def ports(self, device: str) -> tuple[str, ...]:
        """Return all names by which netlists may call the ports of a device."""
        card = self._devices[device]
        further = () if card.netlist is None else tuple(card.netlist.ports)
        return (*card.ports.optical, *card.ports.electrical, *further)

    def end_um(self, device: str, default: str) -> float:
        """Return the length of guide in µm at each end of a device's cell that is no part of the device.

        Args:
            device: Name of the device; a process may not have it.
            default: Key of the card's geometry with this length, if the card does not state it for netlists.
        """
        card = self._devices.get(device)
        if card is None:
            return 0.0
        length = None if card.netlist is None else card.netlist.length
        return card.size(default) if length is None else float(length.end_um)

    def length(self, instance: str, device: str, settings: Mapping[str, Any]) -> dict[str, float]:
        """Return the setting ``length_um`` of a device whose cell states its length by an argument, if it does.

        Raises:
            NetlistError: The argument is no number.
        """
        names = self._devices[device].netlist
        if names is None or names.length is None or settings.get(names.length.argument) is None:
            return {}
        key = names.length.argument
        stated = number_of(f"instance {instance!r}: {key}", settings[key])
        return {"length_um": round(stated - 2 * float(names.length.end_um), 6)}


def _differences(card: DeviceCard, settings: Mapping[str, Any]) -> str:
    """Return text with the settings that differ from those of a device."""
    if card.netlist is None:
        return ""
    found = card.netlist.differing(settings).items()
    values = (f"{key} is {reprlib.repr(value)} instead of {card.netlist.settings[key]!r}" for key, value in found)
    return ", ".join(values)
