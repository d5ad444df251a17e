"""Faults of the wiring of a layout: heaters without pad, ground, label or channel, and channels without heater."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

import klayout.db as kdb
import numpy as np

from optinc_pdk.circuit import Bias
from optinc_pdk.extract.faults import center_um
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.metal_nets import is_ground
from optinc_pdk.extract.polygons import region_polygons
from optinc_pdk.signoff.electrical.wiring import Wiring
from optinc_pdk.signoff.layout_faults import LayoutFault, layout_faults_of

Point = tuple[float, float]


def wiring_faults(wiring: Wiring, bias: Bias) -> tuple[LayoutFault, ...]:
    """List what is wrong with the wiring of a layout, alone and for the channels of a bias.

    Args:
        wiring: Wiring of the layout.
        bias: Bias of its heaters.

    Returns:
        Faults of heaters, pads, labels, vias and wires; then heaters that no pad or no ground drives, pads that drive
        several heaters, channels without a heater, and heaters without a channel.
    """
    return (*layout_faults_of(wiring.faults), *connection_faults(wiring, bias))


def connection_faults(wiring: Wiring, bias: Bias) -> tuple[LayoutFault, ...]:
    """List the faults of :func:`wiring_faults` that are not faults of the extraction."""
    return (*_undriven(wiring), *_shared(wiring), *_channels(wiring, bias))


def _undriven(wiring: Wiring) -> Iterator[LayoutFault]:
    """Heaters whose signal end is on no labelled pad, or whose ground end is on no ground pad."""
    grounds = {pad.net for pad in wiring.pads if is_ground(pad.label)}
    signal, ground = wiring.signal.tolist(), wiring.ground.tolist()
    open_signal = [i for i, label in enumerate(wiring.labels) if not label and signal[i] != ground[i]]
    open_ground = [i for i, net in enumerate(ground) if net not in grounds and signal[i] != net]
    pads = _pads_without_label(wiring, {signal[i] for i in open_signal} | {ground[i] for i in open_ground})
    for i in open_signal:
        yield _open(wiring, i, "no labelled pad drives this heater", "label it", pads.get(signal[i]))
    for i in open_ground:
        name = wiring.labels[i] or "a heater without channel"
        text = f"the heater of {name} is connected to no ground pad"
        yield _open(wiring, i, text, "label it as a ground, GND…", pads.get(ground[i]))


def _open(wiring: Wiring, heater: int, text: str, label: str, pad: Point | None) -> LayoutFault:
    if pad is not None:
        text = f"{text}: its pad at ({pad[0]:.3f}, {pad[1]:.3f}) µm has no label; {label}"
        return LayoutFault("pad_without_label", text, _place(wiring, heater))
    return LayoutFault("open_wire", f"{text}: its wire is cut, or leads to no pad; connect it", _place(wiring, heater))


def _pads_without_label(wiring: Wiring, nets: Collection[int]) -> dict[int, Point]:
    """Centre in µm of metal as wide as a pad, without a label, on each of some nets that has such metal."""
    if not nets:
        return {}
    # 1 nm less, so that metal exactly as wide as a pad is not removed
    shrink = round(float(wiring.process.pads.size_um) * NM_PER_UM) // 2 - 1
    found: dict[int, Point] = {}
    labelled = {pad.net for pad in wiring.pads}
    for net, polygon in wiring.metal.pieces(-1):
        if net in nets and net not in labelled and net not in found:
            for square in region_polygons(kdb.Region(polygon).sized(-shrink).sized(shrink)):
                found[net] = center_um(square.bbox())
    return found


def _shared(wiring: Wiring) -> Iterator[LayoutFault]:
    """Pads that drive more than one heater."""
    heaters: dict[str, list[int]] = defaultdict(list)
    for i, label in enumerate(wiring.labels):
        if label:
            heaters[label].append(i)
    for label, several in heaters.items():
        if len(several) > 1:
            places = ", ".join("({:.3f}, {:.3f})".format(*_place(wiring, i)) for i in several[:3])
            text = f"channel {label!r} drives {len(several)} heaters, at {places} µm; give each a pad of its own"
            yield LayoutFault("shared_wire", text, _place(wiring, several[0]))


def _channels(wiring: Wiring, bias: Bias) -> Iterator[LayoutFault]:
    """Channels of the bias without a heater, and heaters whose pad is no channel of the bias."""
    pads = {pad.label: pad for pad in wiring.pads}
    for label in sorted(set(bias.labels) - set(wiring.labels)):
        at = pads[label].device.position_um if label in pads else None
        reason = "its pad is connected to no heater" if label in pads else "no pad has this label"
        text = f"the bias drives channel {label!r}, but {reason}; repair the layout, or give the bias of this layout"
        yield LayoutFault("channel_without_heater", text, at)
    for label in sorted(set(wiring.labels) - {"", *bias.labels}):
        text = f"the bias lacks channel {label!r}, whose pad drives a heater; give the bias of this layout"
        yield LayoutFault("heater_without_channel", text, _place(wiring, wiring.labels.index(label)))


def _place(wiring: Wiring, heater: int) -> Point:
    """Centre of a heater in µm."""
    x, y = np.mean(wiring.ends_nm[heater], axis=0).tolist()
    return x / NM_PER_UM, y / NM_PER_UM
