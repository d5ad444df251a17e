"""Sampling: statistics against the card and the wafer field, independent random streams, passivity and reciprocity."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from optinc_pdk.cards import KINDS, Quantity
from optinc_pdk.cards.device_models import SETTINGS
from optinc_pdk.cards.variation import Variation
from optinc_pdk.drive import DistanceCrosstalk
from optinc_pdk.errors import InputError
from optinc_pdk.simulate.circuit_optics import ComponentGroup
from optinc_pdk.studies import (
    draw_sample,
    imperfections,
    sample_s_matrices,
    sample_scattering,
    sample_scatterings,
)
from optinc_pdk.studies.variation.sampled_response import sample_device_s
from optinc_pdk.studies.variation.sampling import effective_length_um, nominal_sample, wafer_field


def test_only_without_and_scaled_change_the_named_kinds(every):
    assert dict(every.amount) == dict.fromkeys(KINDS, 1.0)
    assert every.only("coupler", "dac").amount == {"coupler": 1.0, "dac": 1.0}
    assert every.only("coupler").of("loss") == 0.0
    assert every.without("coupler").of("coupler") == 0.0 and every.without("coupler").of("loss") == 1.0
    twice = every.scaled("coupler", 2.0).scaled("coupler", 3.0)
    assert twice.of("coupler") == 6.0 and twice.of("loss") == 1.0
    assert every.scaled("coupler", 3.0).only("coupler").of("coupler") == 3.0
    assert every.of("coupler") == 1.0


def test_dac_steps_grow_with_the_amount(every):
    assert every.effective_bits == 16.0
    assert every.scaled("dac", 2.0).effective_bits == 15.0
    assert every.scaled("dac", 2.0**7.5).effective_bits == pytest.approx(8.5)
    assert every.without("dac").effective_bits is None


LENGTH_UM = 9000.0


def drawn(position, length=LENGTH_UM, count=4000):
    rng = np.random.default_rng(5)
    return np.array([wafer_field(position, length, rng) for _ in range(count)])


@pytest.mark.parametrize("die_um", [(11_000.0, 4_900.0), (33_000.0, 26_000.0)], ids=["die", "reticle"])
def test_covariance_is_gaussian_in_the_distance(die_um):
    place = np.random.default_rng(1).uniform(0.0, 1.0, (12, 2)) * np.array(die_um)
    field = drawn(place)
    apart = np.linalg.norm(place[:, np.newaxis] - place, axis=2)
    expected = np.exp(-((apart / LENGTH_UM) ** 2))
    # the standard error of a covariance from 4000 draws is up to √(2 / 4000) = 0.022
    assert np.abs(field.T @ field / len(field) - expected).max() < 4 * 0.022
    assert np.abs(field.mean(axis=0)).max() < 4 / np.sqrt(len(field))
    # distant points detect a wrong correlation length: half of it would reduce these values to 0.04
    assert expected.min() < 0.5


def test_the_difference_between_neighbours_agrees_with_the_formula():
    """For two arms of an MZI at 26 µm, the rms difference is √(2 (1 - exp(-(d/l)²))), 0.4 %."""
    apart = 26.0
    field = drawn(np.array([[2000.0, 1000.0], [2000.0, 1000.0 + apart], [9000.0, 4000.0]]))
    rms = float(np.std(field[:, 0] - field[:, 1]))
    assert rms == pytest.approx(np.sqrt(2 * (1 - np.exp(-((apart / LENGTH_UM) ** 2)))), rel=0.05)


@pytest.mark.parametrize("length", [0.0, 1e-3, 3.0, 30.0, 3000.0])
def test_the_effective_length_is_the_integral_of_the_correlation(length):
    steps = np.linspace(0.0, length, 3001)
    weight = (length - steps) * np.exp(-((steps / 10.0) ** 2))
    expected = np.sqrt(2.0 * np.trapezoid(weight, steps))
    assert effective_length_um(np.array([length]), 10.0)[0] == pytest.approx(expected, rel=1e-4, abs=1e-6)


SEEDS = range(200)
DRAWN = [kind for kind in KINDS if kind not in ("dac", "laser", "detector")]


def numbers(sample):
    """Return all values of a sample by name."""
    found = {key: getattr(sample, key) for key in ("guide_phase_rad", "guide_loss_db", "power_scale", "crosstalk")}
    found |= {"resistance_scale": sample.resistance_scale, "drift": sample.drift}
    found |= {f"{name}.{key}": v for name, values in sample.parameters.items() for key, v in values.items()}
    return found | {"wavelength_nm": np.array(sample.wavelength_nm)}


def equal(one, other):
    a, b = numbers(one), numbers(other)
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def of_devices(chip, count):
    """Return the chip with ``count`` instances of every device of its process; phase shifters stay as they are."""
    groups = []
    for name, card in chip.process.devices.items():
        heated = card.model.name == "phase_shifter"
        if card.ports.optical:
            groups.append(
                ComponentGroup(name, chip.structure.heater if heated else np.arange(count), np.zeros((0, 0)), heated)
            )
    # lengths of coupled guides, which their card does not state
    lengths = {key: np.linspace(0.1, 50.0, count) for keys in SETTINGS.values() for key in keys}
    circuit = replace(chip.structure.circuit, settings={**chip.structure.circuit.settings, **lengths})
    return replace(chip, structure=replace(chip.structure, circuit=circuit, devices=tuple(groups)))


def test_kinds_are_the_sections_of_the_card_and_noise():
    assert set(KINDS) == {*Variation.model_fields, "laser", "detector"}


@pytest.mark.parametrize(("kind", "device"), [("coupler", "mmi2x2"), ("splitter", "mmi1x2")])
def test_errors_of_splitting_have_the_cards_rms(chip, every, kind, device):
    samples = [draw_sample(chip, every.only(kind), seed) for seed in SEEDS]
    share = (1 + np.concatenate([sample.parameters[device]["imbalance"] for sample in samples])) / 2
    nominal = (1 + float(chip.process.device(device).parameter("imbalance"))) / 2
    rms = float(getattr(every.card, kind).power_rms)
    assert np.std(share) == pytest.approx(rms, rel=0.05)
    assert np.mean(share) == pytest.approx(nominal, abs=5 * rms / np.sqrt(share.size))
    assert set(samples[0].parameters) == {device}


def test_directional_couplers_have_the_same_angle_error(chip, every):
    """The power error of a 5 % tap is sin(2 angle) = 0.436 times that of a 50:50 coupler."""
    sample = draw_sample(of_devices(chip, 4000), every.only("coupler"), 1)
    rms = float(every.card.coupler.power_rms)
    for name, share in (("directional_coupler", 0.5), ("monitor_tap", 0.05)):
        cross = sample.parameters[name]["cross"]
        slope = np.sin(2 * np.arcsin(np.sqrt(share)))
        assert np.std(cross) == pytest.approx(rms * slope, rel=0.05)
        # the curvature of sin² shifts its mean by rms² cos(2 angle)
        curved = share + rms**2 * np.cos(2 * np.arcsin(np.sqrt(share)))
        assert np.mean(cross) == pytest.approx(curved, abs=5 * rms * slope / np.sqrt(cross.size))


def test_kinds_do_not_share_their_random_numbers(chip, every):
    """Errors of couplers, splitters and static phases are the first numbers of independent streams."""
    found = []
    for seed in SEEDS:
        sample = draw_sample(chip, every.only("coupler", "splitter", "phase"), seed)
        splitting = [sample.parameters[name]["imbalance"] for name in ("mmi2x2", "mmi1x2")]
        found.append([drawn[:10] for drawn in (*splitting, sample.guide_phase_rad[:10])])
    drawn = [np.array(each) - np.mean(each, axis=0) for each in zip(*found, strict=True)]
    for one, other in combinations(drawn, 2):
        product = one * other
        assert np.abs(product.mean()) < 5 * np.std(one) * np.std(other) / np.sqrt(product.size)


def test_losses_have_the_spreads_of_the_card(chip, every):
    card = every.card.loss
    samples = [draw_sample(chip, every.only("loss"), seed) for seed in SEEDS]
    for name, spread in (("mmi2x2", card.device_spread), ("grating_coupler", card.grating_spread)):
        loss = np.concatenate([sample.parameters[name]["loss_db"] for sample in samples])
        ratio = np.log(loss / float(chip.process.device(name).parameter("loss_db")))
        assert np.mean(ratio) == pytest.approx(0.0, abs=5 * float(spread) / np.sqrt(ratio.size))
        assert np.std(ratio) == pytest.approx(float(spread), rel=0.03)
    long = np.flatnonzero(chip.net_length_um > 0)
    bare = float(chip.process.guide.loss_db_per_cm) * 1e-4 * chip.net_length_um[long]
    ratio = np.log(1 + np.array([sample.guide_loss_db[long] for sample in samples]) / bare)
    chip_spread, local = float(card.guide_chip_spread), float(card.guide_local_spread)
    assert np.std(ratio.mean(axis=1)) == pytest.approx(np.hypot(chip_spread, local / np.sqrt(long.size)), rel=0.2)
    assert np.std(ratio - ratio.mean(axis=1, keepdims=True)) == pytest.approx(local, rel=0.03)


def test_static_phases_have_the_cards_rms_and_nets_without_length_none(chip, every):
    samples = [draw_sample(chip, every.only("phase"), seed) for seed in SEEDS]
    phase = np.array([sample.guide_phase_rad for sample in samples])
    long = chip.net_length_um > 0
    assert (~long).any() and not phase[:, ~long].any()
    arms = np.array([sample.parameters["phase_shifter"]["phase_rad"] for sample in samples])
    for drawn in (phase[:, long], arms):
        assert np.std(drawn) == pytest.approx(float(every.card.phase.rms_rad), rel=0.03)
        assert np.mean(drawn) == pytest.approx(0.0, abs=5 * 0.1 / np.sqrt(drawn.size))


def all_phases(samples):
    """Return (samples, waveguides) phases of nets, then of waveguides under heaters."""
    return np.array(
        [np.append(sample.guide_phase_rad, sample.parameters["phase_shifter"]["phase_rad"]) for sample in samples]
    )


def with_sizes(every, kind, **numbers):
    """Return the imperfections with other parameters of width or height."""
    section = getattr(every.card, kind)
    changed = section.model_copy(update={key: Quantity(value, "test") for key, value in numbers.items()})
    return replace(every.only(kind), card=every.card.model_copy(update={kind: changed}))


@pytest.mark.parametrize("kind", ["width", "height"])
def test_waveguide_phases_follow_the_wafer_field_at_their_centres(chip, every, kind):
    """The correlation length is below the die size, so every pair of waveguides has its own correlation."""
    card = getattr(every.card, kind)
    selected = with_sizes(every, kind, correlation_um=2000.0, local_rms_nm=0.0)
    phase = all_phases([draw_sample(chip, selected, seed) for seed in range(1000)])
    length = np.append(chip.net_length_um, np.full(len(chip.heater_um), 100.0))
    place = np.concatenate([chip.net_um, chip.heater_um])
    rms = float(card.rad_per_nm) / 100.0 * float(card.rms_nm) * length
    assert not phase[:, length == 0].any()
    long = length > 0
    field = phase[:, long] / rms[long]
    apart = np.linalg.norm(place[long][:, np.newaxis] - place[long], axis=2)
    expected = np.exp(-((apart / 2000.0) ** 2))
    # the standard error of a covariance c is √((1 + c²) / chips); errors of neighbouring pairs are correlated
    off = (field.T @ field / len(field) - expected) / np.sqrt((1 + expected**2) / len(field))
    assert np.abs(off).max() < 6.0
    assert np.sqrt(np.mean(off**2)) < 1.6


@pytest.mark.parametrize("kind", ["width", "height"])
def test_local_variation_along_waveguides_is_independent(chip, every, kind):
    card = getattr(every.card, kind)
    phase = all_phases([draw_sample(chip, with_sizes(every, kind, rms_nm=0.0), seed) for seed in SEEDS])
    length = np.append(chip.net_length_um, np.full(len(chip.heater_um), 100.0))
    counted = effective_length_um(length, float(card.local_correlation_um))
    rms = float(card.rad_per_nm) / 100.0 * float(card.local_rms_nm) * counted
    for some in ((length > 0) & (length < 50), length > 200, length == 100):
        assert np.std(phase[:, some] / rms[some]) == pytest.approx(1.0, abs=0.03)
    together = np.corrcoef(phase[:, length > 200].T)
    assert np.abs(together - np.eye(len(together))).max() < 5 / np.sqrt(len(phase))


def test_local_variation_gives_the_measured_coherence_length(every):
    """Phase variance 2 L / length, 4.17 ± 0.42 mm (Yang et al., Opt. Express 23, 16890)."""
    long = np.array([1000.0])
    variance = sum(
        (float(card.rad_per_nm) / 100 * float(card.local_rms_nm) * effective_length_um(long, card.local_correlation_um))
        ** 2
        for card in (every.card.width, every.card.height)
    )
    assert 2.0 / variance[0] == pytest.approx(4.17, abs=0.42)


def test_heaters_vary_by_chip_and_by_heater(chip, every):
    card = every.card.heater
    samples = [draw_sample(chip, every.only("heater"), seed) for seed in SEEDS]
    for key, common, local in (
        ("resistance_scale", card.resistance_chip_spread, card.resistance_local_spread),
        ("power_scale", card.power_pi_chip_spread, card.power_pi_local_spread),
        ("drift", 0.0, card.drift_spread),
    ):
        ratio = np.log(np.array([getattr(sample, key) for sample in samples]))
        mean = ratio.mean(axis=1, keepdims=True)
        within = np.std(ratio - mean) * np.sqrt(ratio.shape[1] / (ratio.shape[1] - 1))
        assert within == pytest.approx(float(local), rel=0.05)
        assert np.std(mean) == pytest.approx(np.hypot(float(common), float(local) / np.sqrt(ratio.shape[1])), rel=0.2)


def test_crosstalk_of_three_heaters_by_hand(chip, every):
    """Heaters 25, 50 and 75 µm apart in a line: shares of 2.9 %, 1.45 % and 0.967 % by the card."""
    card = every.card.crosstalk
    place = np.array([[0.0, 0.0], [25.0, 0.0], [75.0, 0.0]])
    by_hand = np.array([[1, 0.029, 0.029 / 3], [0.029, 1, 0.029 / 2], [0.029 / 3, 0.029 / 2, 1]])
    assert np.allclose(DistanceCrosstalk(place, float(card.share), float(card.distance_um)).matrix, by_hand)
    expected = DistanceCrosstalk(chip.heater_um, float(card.share), float(card.distance_um)).matrix
    others = ~np.eye(len(expected), dtype=bool)
    ratio = []
    for seed in SEEDS:
        matrix = draw_sample(chip, every.only("crosstalk"), seed).crosstalk
        assert np.array_equal(matrix, matrix.T) and np.all(np.diagonal(matrix) == 1.0)
        ratio.append(np.log(matrix[others] / expected[others]))
    mean = np.mean(ratio, axis=1, keepdims=True)
    assert np.std(mean) == pytest.approx(float(card.chip_spread), rel=0.2)
    assert np.std(ratio - mean) == pytest.approx(float(card.pair_spread), rel=0.03)


def test_the_laser_wavelength_has_the_cards_rms(chip, every):
    offset = [draw_sample(chip, every.only("wavelength"), seed).wavelength_nm - 1550.0 for seed in SEEDS]
    assert np.std(offset) == pytest.approx(float(every.card.wavelength.rms_nm), rel=0.2)


def test_a_sample_depends_on_the_seed(chip, every):
    assert equal(draw_sample(chip, every, 11), draw_sample(chip, every, 11))
    one, other = numbers(draw_sample(chip, every, 11)), numbers(draw_sample(chip, every, 12))
    assert all(not np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("kind", DRAWN)
def test_a_kind_does_not_change_the_others(chip, every, kind):
    alone, rest, all_ = (draw_sample(chip, each, 5) for each in (every.only(kind), every.without(kind), every))
    plain, one, others, every_one = (numbers(sample) for sample in (nominal_sample(chip), alone, rest, all_))
    changed = [key for key in one if key not in plain or not np.array_equal(one[key], plain[key])]
    assert changed, "this kind changes no value"
    for key in every_one:
        if key not in changed:
            assert np.array_equal(every_one[key], others[key])
        elif key not in others or np.array_equal(others[key], plain.get(key)):
            assert np.array_equal(every_one[key], one[key])
        else:
            # several kinds contribute to a waveguide's phase
            assert np.allclose(every_one[key], one[key] + others[key], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", DRAWN)
def test_amount_0_is_nominal_and_errors_are_proportional_to_the_amount(chip, every, kind):
    assert equal(draw_sample(chip, every.scaled(kind, 0.0), 5), draw_sample(chip, every.without(kind), 5))
    assert equal(draw_sample(chip, every.only(kind).scaled(kind, 0.0), 5), nominal_sample(chip, 5))
    once, small, plain = (numbers(draw_sample(chip, every.only(kind).scaled(kind, f), 5)) for f in (0.002, 0.001, 0.0))
    for key, value in once.items():
        device, _, parameter = key.partition(".")
        start = plain.get(
            key, chip.process.device(device).parameter(parameter) if parameter in _MODEL_PARAMETERS else 0.0
        )
        assert np.allclose(value - start, 2 * (small[key] - start), rtol=0.02, atol=1e-12)


_MODEL_PARAMETERS = ("imbalance", "loss_db", "crosstalk_db")


@pytest.mark.parametrize("factor", [1.0, 20.0])
def test_every_sampled_device_is_passive_and_reciprocal(chip, every, factor):
    """All devices of the process, 300 of each, with errors up to twenty times the card's."""
    count = 300
    many = of_devices(chip, count)
    selected = imperfections(chip.process)
    for kind in ("coupler", "splitter", "loss"):
        selected = selected.scaled(kind, factor)
    sample = draw_sample(many, selected, 1)
    varied = {"coupler", "crossing", "directional_coupler", "edge_coupler", "modulator", "taper"}
    assert varied <= set(sample.parameters)
    for name in sample.parameters:
        s = sample_device_s(many, sample, name, np.array([1530.0, 1550.0]))
        assert s.shape[:2] == (2, count if name != "phase_shifter" else chip.structure.heater.size)
        assert np.linalg.norm(s, 2, axis=(2, 3)).max() <= 1.0 + 1e-12
        assert np.array_equal(s, s.swapaxes(2, 3))


def test_a_sampled_chip_is_passive_and_reciprocal(chip, every):
    for one in sample_scatterings(chip, [draw_sample(chip, every, seed) for seed in range(8)], chip.voltage_v):
        assert np.linalg.norm(one.s[0], 2) <= 1.0
        assert np.abs(one.s[0] - one.s[0].T).max() < 1e-14


def test_a_batch_of_samples_equals_single_samples(chip, every):
    samples = [
        draw_sample(chip, every, 1),
        draw_sample(chip, every.only("coupler"), 2),
        draw_sample(chip, every.only(), 3),
    ]
    for sample, one in zip(samples, sample_scatterings(chip, samples, chip.voltage_v, 12.0), strict=True):
        alone = sample_scattering(chip, sample, chip.voltage_v, 12.0)
        assert np.array_equal(one.wavelengths_nm, alone.wavelengths_nm)
        assert np.abs(one.s - alone.s).max() < 1e-14
    biases = np.stack([chip.voltage_v, 0.9 * chip.voltage_v])
    several = sample_s_matrices(chip, samples[0], biases)
    assert np.abs(several[1] - sample_scattering(chip, samples[0], biases[1]).s).max() < 1e-14


def test_a_device_with_s_parameters_from_a_file_cannot_be_sampled(chip, every):
    process = chip.process
    card = process.device("mmi2x2")
    measured = card.model_copy(update={"model": card.model.model_copy(update={"file": process.folder / "mmi.s4p"})})
    replaced = replace(chip, process=process.model_copy(update={"devices": {**process.devices, "mmi2x2": measured}}))
    with pytest.raises(InputError, match=r"'mmi2x2' .*mmi\.s4p.*'coupler'"):
        draw_sample(replaced, every, 1)
    assert "mmi2x2" not in draw_sample(replaced, every.without("coupler", "loss"), 1).parameters


def test_invalid_kinds_amounts_and_seeds_are_refused(chip, every):
    with pytest.raises(InputError, match=r"'couplers'.* coupler, splitter"):
        every.only("couplers")
    with pytest.raises(InputError, match="amount of 'loss' is -1"):
        every.scaled("loss", -1.0)
    with pytest.raises(InputError, match="seed is -1"):
        draw_sample(chip, every, -1)
    with pytest.raises(InputError, match="'imperfections'"):
        imperfections(chip.process.model_copy(update={"imperfections": None}))


def test_values_do_not_depend_on_other_points():
    ends = [[0.0, 0.0], [9000.0, 4000.0]]
    few = wafer_field(np.array([*ends, [3000.0, 2000.0]]), LENGTH_UM, np.random.default_rng(2))
    more = wafer_field(np.array([*ends, [3000.0, 2000.0], [100.0, 3900.0]]), LENGTH_UM, np.random.default_rng(2))
    assert np.allclose(few, more[:3], atol=1e-12)
