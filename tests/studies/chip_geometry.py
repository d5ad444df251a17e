"""Geometry of circuits without a layout, for samples of their chips."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optinc_pdk.circuit import flatten


def with_geometry(circuit, seed, die_um=(8000.0, 4000.0)):
    """Add positions on a raster, equal arms inside MZIs, random or zero lengths between them, and resistances."""
    flat = flatten(circuit)
    rng = np.random.default_rng(seed)
    count = len(flat.instances)
    columns = int(np.ceil(np.sqrt(2 * count)))
    raster = np.stack(np.divmod(np.arange(count), columns)[::-1], axis=1) / columns
    owner = np.searchsorted(flat.offset, flat.nets, side="right") - 1
    parent = np.array([name.rpartition(".")[0] for name in flat.instances])[owner]
    inside = (parent[:, 0] == parent[:, 1]) & (parent[:, 0] != "")
    heated = flat.instances_of("phase_shifter")
    settings = {}
    for key, value in (("resistance_ohm", 1100.0), ("wire_ohm", 80.0)):
        settings[key] = np.full(count, np.nan)
        settings[key][heated] = value * rng.uniform(0.9, 1.1, heated.size)
    outside = rng.uniform(30.0, 330.0, len(flat.nets)) * (rng.uniform(size=len(flat.nets)) > 0.2)
    return replace(
        flat,
        settings=settings,
        position_um=raster * np.array(die_um),
        net_length_um=np.where(inside, 30.0, outside),
    )
