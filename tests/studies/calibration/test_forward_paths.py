"""Light paths without reflections, against the solver with reflections and against their own adjoint."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.simulate.programming.phase_fit import solve_fields
from optinc_pdk.studies.calibration._forward_paths import _levels, carry_back, carry_forward, forward_paths

SETTINGS = 10


@pytest.fixture(scope="module")
def phases(problem):
    return np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, (SETTINGS, problem.structure.heater.size))


def transmissions(paths, phases):
    turned = np.zeros((paths.transmission.size, len(phases)))
    np.add.at(turned, paths.heated, phases[:, paths.heater].T)
    return paths.transmission[:, np.newaxis] * np.exp(1j * turned)


def detected(problem, target, phases):
    """Return the fields at the detectors of a layer by the solver with reflections."""
    carrier, inputs = solve_fields(problem, phases).at_detectors((*target.plus, *target.minus), target)
    return np.column_stack([carrier, inputs])


def test_fields_at_the_detectors_are_those_of_the_solver_but_for_reflections(problem, phases):
    for target in problem.targets:
        paths = forward_paths(problem, target)
        field = carry_forward(paths, transmissions(paths, phases), paths.nominal)
        found = np.einsum("dw,wsc->sdc", paths.detected, field)
        expected = np.stack([detected(problem, target, each) for each in phases])
        assert 0.0 < np.linalg.norm(found - expected) < 5e-3 * np.linalg.norm(expected)


def test_local_oscillators_have_the_power_that_the_board_states(problem):
    """Four times the power is twice the field of the carrier, in the paths as in the solver."""
    strong = replace(problem, board=replace(problem.board, oscillator_power=4.0))
    phases = np.zeros(problem.structure.heater.size)
    for target in problem.targets[:-1]:
        one, two = forward_paths(problem, target), forward_paths(strong, target)
        assert np.allclose(two.injected[:, 0], 2.0 * one.injected[:, 0])
        assert np.allclose(two.injected[:, 1:], one.injected[:, 1:]) and np.any(one.injected[:, 0])
        fields = [detected(each, target, phases) for each in (problem, strong)]
        assert np.allclose(fields[1][:, 0], 2.0 * fields[0][:, 0]) and np.allclose(fields[1][:, 1:], fields[0][:, 1:])


def test_fields_carried_back_from_the_detectors_give_the_same_light(problem, phases):
    for target in problem.targets:
        paths = forward_paths(problem, target)
        passed = transmissions(paths, phases)
        forward = np.einsum("dw,wsc->sdc", paths.detected, carry_forward(paths, passed, paths.nominal))
        back = carry_back(paths, passed, paths.nominal)
        assert np.allclose(np.einsum("wsd,ws,wc->sdc", back, passed, paths.injected), forward, rtol=1e-12, atol=1e-15)


def test_a_closed_ring_is_refused():
    assert [level.tolist() for level in _levels(3, np.array([0, 1]), np.array([1, 2]))] == [[0], [1], [2]]
    with pytest.raises(ValueError, match="closed ring"):
        _levels(3, np.array([0, 1, 2]), np.array([1, 2, 1]))
