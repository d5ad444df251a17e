"""Our models as SAX sees them."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.models import device_s, sax_models

PROCESS = load_process()


@pytest.fixture(autouse=True)
def _double_precision():
    jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("name", sorted(n for n, d in PROCESS.devices.items() if d.ports.optical))
def test_sax_models_are_ours_in_micrometres(name):
    wavelengths = np.array([1.53, 1.55, 1.57])
    settings = {"phase": 0.7} if name == "phase_shifter" else {}
    found = sax_models(PROCESS)[name](wl=wavelengths, **settings)
    ours = device_s(PROCESS, name, wavelengths * 1e3, settings.get("phase", 0.0))
    ports = PROCESS.devices[name].ports.optical
    for i, a in enumerate(ports):
        for j, b in enumerate(ports):
            if (a, b) in found:
                assert np.asarray(found[a, b]) == pytest.approx(ours[:, j, i], abs=1e-15)
            else:
                assert not np.any(ours[:, j, i])


def test_only_devices_with_light_have_models():
    assert "pad" not in sax_models(PROCESS)
    assert complex(sax_models(PROCESS)["mmi2x2"]()["o2", "o4"]).real == 0.0
