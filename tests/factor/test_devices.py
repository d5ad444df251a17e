"""Devices and meshes that cannot exist are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.factor import (
    mesh_devices,
    rectangular,
)

MESH = rectangular(np.eye(3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first_ratio": 1.2}, r"first_ratio.*1\.2.*0 to 1"),
        ({"second_ratio": np.nan}, "second_ratio.*nan"),
        ({"first_ratio": [0.5, 0.5]}, r"first_ratio.*\(2,\).*\(3,\)"),
        ({"first_ratio": np.array([None])}, "first_ratio.*object"),
        ({"theta_offset": np.inf}, "theta_offset.*inf"),
        ({"inner_loss_db": -0.1}, r"inner_loss_db.*-0\.1 dB"),
        ({"outer_loss_db": np.inf}, "outer_loss_db.*inf dB"),
        ({"idle_loss_db": -1.0}, r"idle_loss_db.*-1\.0 dB"),
        ({"redundant_columns": -1}, "redundant_columns.*-1"),
        ({"redundant_columns": 1.0}, r"redundant_columns.*1\.0"),
    ],
)
def test_impossible_devices_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mesh_devices(MESH, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modes": 0}, "modes.*0"),
        ({"row": np.array([0, 1, 5])}, "row.*5.*3 modes.*0 to 1"),
        ({"column": np.array([0, -1, 2])}, "column.*-1"),
        ({"column": np.array([0, 0, 0])}, "column 0.*mode 0"),
        ({"first": np.zeros(2)}, r"first.*\(2,\).*\(3,\)"),
        ({"inner": np.ones(3)}, r"inner.*\(3,\).*\(3, 2\)"),
        ({"inner": np.zeros((3, 2))}, r"inner.*0\.0"),
        ({"idle": 1.5}, r"idle.*1\.5"),
    ],
)
def test_devices_that_form_no_mesh_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(mesh_devices(MESH), **change)  # type: ignore[arg-type]
