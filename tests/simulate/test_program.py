"""Programming of whole chips: initial phases, derivatives, and every word of the default network."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from optinc_pdk.assemble import assemble
from optinc_pdk.averaging import Averaging
from optinc_pdk.circuit import NetlistError
from optinc_pdk.errors import InputError
from optinc_pdk.factor import SvdFactor, svd_generic
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights, factorise, without_output_bias
from optinc_pdk.networks.error_tolerance import lattice_score
from optinc_pdk.simulate import analyse, program, scattering, transmit
from optinc_pdk.simulate.programming.detection_jacobian import (
    jacobian,
    linear_response,
    quadrature,
    quadrature_jacobian,
    residual,
)
from optinc_pdk.simulate.programming.initial_phases import align_phases, aligned_initial_phases, initial_phases
from optinc_pdk.simulate.programming.phase_fit import ProgrammingProblem, fit_phases, matrix_errors, solve_fields
from optinc_pdk.simulate.programming.targets import layer_targets

from .conftest import all_words, chain, chip, with_parameters

TASK = Averaging(4, 4, 2)


def random_onn(hidden, factor=(), seed=0, least_bias=1.0):
    """A random network for matrices and circuits; its biases keep every unit alive."""
    rng = np.random.default_rng(seed)
    widths = (2, *hidden, 2)
    layers = [
        Layer(0.1 * rng.standard_normal((out, into)), rng.uniform(least_bias, 2 * least_bias, out))
        for into, out in pairwise(widths)
    ]
    layers[-1] = replace(layers[-1], bias=np.zeros(2))
    return AveragingNetwork(tuple(layers), TASK, factor)


def problem_of(onn, process, seed=1, factors=None):
    circuit, board = chip(onn, process, seed)
    return ProgrammingProblem(analyse(circuit), board, layer_targets(onn, board, factors), 1550.0, process)


def other_null_space(layer):
    """The same matrix, with other vectors where it leaves them free."""
    return replace(layer, factor=svd_generic(layer.matrix, np.random.default_rng(99)))


def perturbed_mesh(layer):
    """A slightly different matrix."""
    mesh = layer.factor.u
    return replace(layer, factor=replace(layer.factor, u=replace(mesh, theta=mesh.theta + 0.02)))


@pytest.mark.parametrize(("change", "exact"), [(other_null_space, True), (perturbed_mesh, False)])
def test_the_chip_is_programmed_from_the_factors_that_are_given(process, change, exact):
    onn = random_onn((4, 3))
    circuit, board = chip(onn, process)
    factors = factorise(onn)
    changed = (change(factors[0]), *factors[1:])
    assert isinstance(changed[0].factor, SvdFactor)
    assert np.allclose(changed[0].realised, factors[0].realised, atol=1e-9) == exact
    before, after = (initial_phases(problem_of(onn, process, factors=given))[0] for given in (factors, changed))
    moved = np.abs(np.angle(np.exp(1j * (after - before)))) > 1e-6
    labels = np.array(analyse(circuit).channel)
    assert all(label.startswith("l0_u") for label in labels[moved]) and moved.sum() > 4
    one, two = (program(circuit, board, onn, process, factors=given) for given in (factors, changed))
    default = program(circuit, board, onn, process)
    assert np.array_equal(one.bias.code, default.bias.code)
    assert not np.array_equal(one.bias.code, two.bias.code)
    # each chip computes the matrices of its default factors
    assert max(one.driven_error.max(), two.driven_error.max()) < 2e-4


def test_factors_of_another_network_are_refused(process):
    onn = random_onn((4, 3))
    circuit, board = chip(onn, process)
    for factors in (factorise(onn)[:2], factorise(replace(onn, factor=("svd", ("approx", 3), "svd")))):
        with pytest.raises(ValueError, match="factors"):
            program(circuit, board, onn, process, factors=factors)


@pytest.mark.parametrize(
    ("hidden", "factor"),
    [((3,), ()), ((4, 5), ()), ((6, 3, 2), ()), ((4, 4), ("svd", ("approx", 4), "svd")), ((1, 2), ())],
)
def test_initial_phases_are_exact_on_an_ideal_chip(ideal_process, hidden, factor):
    problem = problem_of(random_onn(hidden, factor), ideal_process)
    phases = initial_phases(problem)[0]
    phases = align_phases(problem, solve_fields(problem, phases), phases)
    assert matrix_errors(problem, solve_fields(problem, phases)).max() < 1e-9


def assert_jacobian_agrees_with_finite_differences(problem, rng):
    """Away from the solution, where residuals are not small."""
    phases = aligned_initial_phases(problem)[0] + 0.1 * rng.standard_normal(problem.structure.heater.size)
    light = solve_fields(problem, phases)
    for target in problem.targets:
        heaters = problem.heaters(target.index)
        exact, balance = jacobian(light, target, heaters), linear_response(light, target).balance
        for column in rng.choice(heaters.size, 6, replace=False):
            sides = []
            for step in (1e-4, -1e-4):
                moved = phases.copy()
                moved[heaters[column]] += step
                seen = linear_response(solve_fields(problem, moved), target, None if target.last else balance)
                sides.append(residual(seen.coefficient, target).reshape(-1))
            slope = (sides[0] - sides[1]) / 2e-4
            assert exact[:, column] == pytest.approx(slope, abs=1e-6 * np.abs(slope).max() + 1e-8)


def test_jacobian_agrees_with_finite_differences(process):
    assert_jacobian_agrees_with_finite_differences(problem_of(random_onn((3, 4)), process), np.random.default_rng(0))


def test_quadrature_jacobian_agrees_with_finite_differences(process):
    problem = problem_of(random_onn((3, 4)), process)
    rng = np.random.default_rng(0)
    phases = aligned_initial_phases(problem)[0] + 0.1 * rng.standard_normal(problem.structure.heater.size)
    light = solve_fields(problem, phases)
    for target in problem.targets[:-1]:
        heaters = problem.heaters(target.index)
        exact = quadrature_jacobian(light, target, heaters)
        for column in rng.choice(heaters.size, 8, replace=False):
            sides = []
            for step in (1e-4, -1e-4):
                moved = phases.copy()
                moved[heaters[column]] += step
                sides.append(quadrature(solve_fields(problem, moved), target).reshape(-1))
            slope = (sides[0] - sides[1]) / 2e-4
            # the Jacobian neglects the change of the balance
            assert np.abs(exact[:, column] - slope).max() < 0.02 * np.abs(slope).max() + 1e-3


def test_a_quadrature_weight_keeps_oscillators_in_phase(process):
    plain = problem_of(random_onn((3, 4)), process)
    start = aligned_initial_phases(plain)[0]
    for target in plain.targets[:-1]:
        start[[plain.channel[piece.label("lo")] for piece in target.pieces]] += 1.2
    quadratures = {}
    for weight in (0.0, 0.01):
        problem = replace(plain, quadrature_weight=weight)
        fitted = fit_phases(problem, start)
        assert matrix_errors(problem, fitted.light).max() < 1e-3
        quadratures[weight] = max(np.abs(quadrature(fitted.light, target)).max() for target in problem.targets[:-1])
    assert quadratures[0.01] < 0.2 * quadratures[0.0]


def test_every_word_of_the_default_network(process):
    process = with_parameters(process, extinction_db=400.0)
    onn = without_output_bias(AveragingNetwork.load(bundled_weights()))
    circuit, board = chip(onn, process)
    programmed = program(circuit, board, onn, process)
    assert programmed.error.max() < 2e-4
    assert programmed.worst_error.max() < 1e-3
    symbols = all_words(onn.task)
    received = transmit(symbols, scattering(circuit, programmed.bias, 1550.0, process), board, programmed.bias)
    ideal = onn.task.encode(onn.task.ideal(onn.task.decode(symbols)))[:, np.newaxis]
    assert np.array_equal(received.levels, np.broadcast_to(ideal, received.levels.shape))
    margin = 0.5 - np.abs(received.outputs - ideal).max()
    assert margin == pytest.approx(lattice_score(onn).margin, abs=0.02)
    # comparators saturate modulators on purpose
    assert onn.activation == "clipped_relu" and received.saturated > 0


def test_program_is_reproducible(process):
    onn = random_onn((3,))
    circuit, board = chip(onn, process)
    one, two = (program(circuit, board, onn, process).bias for _ in range(2))
    assert np.array_equal(one.code, two.code)
    assert one.activations == two.activations
    assert one.labels == tuple(sorted(one.labels))


def test_without_geometry_phases_count(process):
    onn = chain(TASK)
    circuit = assemble(onn, process, "chip")
    programmed = program(circuit, circuit.board, onn, process)
    assert not programmed.bias.code.any()
    assert programmed.driven_error == pytest.approx(programmed.error)
    # v_2 of the last layer passes 0.9988 of one input through five MZIs, more than couplers with 2 % imbalance allow
    assert programmed.error.max() < 1e-3


def test_an_approximated_layer_is_programmed(process):
    onn = random_onn((4, 4), ("svd", ("approx", 4), "svd"))
    circuit, board = chip(onn, process)
    programmed = program(circuit, board, onn, process)
    assert programmed.driven_error.max() < 2e-4


@pytest.mark.parametrize(
    "dead",
    [lambda first: Layer(0.0 * first.weight, first.bias), lambda first: Layer(-np.abs(first.weight), -first.bias)],
)
def test_a_layer_without_effect_is_refused(process, dead):
    onn = random_onn((3,))
    circuit, board = chip(onn, process)
    with pytest.raises(ValueError, match=r"layers\.0 "):
        program(circuit, board, replace(onn, layers=(dead(onn.layers[0]), onn.layers[1])), process)


def test_phases_that_are_not_finite_are_refused(process):
    problem = problem_of(random_onn((3,)), process)
    with pytest.raises(InputError, match=r"chip.*finite"):
        solve_fields(problem, np.full(problem.structure.heater.size, np.nan))


def test_electronics_out_of_range_are_refused(process):
    onn = random_onn((4,), least_bias=1e3)
    circuit, board = chip(onn, process)
    with pytest.raises(ValueError, match=r"'l0_r\d'.*offset.*-10 … 10"):
        program(circuit, board, onn, process)


def test_another_networks_chip_is_refused(process):
    circuit, board = chip(random_onn((3,)), process)
    with pytest.raises(ValueError, match=r"3 .*layer 0.* 4"):
        program(circuit, board, random_onn((4,)), process)


def test_a_heater_without_pad_is_refused(process):
    onn = random_onn((3,))
    circuit, board = chip(onn, process)
    ports = {label: port for label, port in circuit.ports.items() if label != "l0_lo_r1"}
    with pytest.raises(NetlistError, match="l0_lo_r1"):
        program(replace(circuit, ports=ports), board, onn, process)
