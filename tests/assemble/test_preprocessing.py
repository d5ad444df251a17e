"""P: depths of the symbols in a group's tree, complete trees without waste, and refused splitters."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.assemble import preprocessing_loss_db, symbol_levels
from optinc_pdk.assemble._component_library import device_types
from optinc_pdk.assemble.preprocessing import add_preprocessing
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, Quantity, load_process
from optinc_pdk.circuit import CircuitBuilder
from optinc_pdk.errors import InputError

PROCESS = load_process()


def with_loss(loss_db: float) -> Process:
    splitter = PROCESS.device("mmi1x2")
    parameters = {**splitter.model.parameters, "loss_db": Quantity(loss_db, "test")}
    model = splitter.model.model_copy(update={"parameters": parameters})
    return PROCESS.model_copy(
        update={"devices": {**PROCESS.devices, "mmi1x2": splitter.model_copy(update={"model": model})}}
    )


@st.composite
def tasks(draw: st.DrawFn) -> Averaging:
    groups, size = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    return Averaging(2 * groups * size, draw(st.integers(1, 9)), groups)


@pytest.mark.parametrize(
    ("servers", "bits", "levels"),
    [
        (4, 2, (2,)),
        (4, 4, (3, 6)),
        (3, 4, (2, 5)),  # the leaf that three servers leave holds the symbols of lower weight
        (1, 2, (0,)),
        (1, 4, (1, 4)),
        (7, 8, (3, 6, 9, 12)),
        (8, 8, (4, 7, 10, 13)),
    ],
)
def test_levels_of_known_groups(servers: int, bits: int, levels: tuple[int, ...]) -> None:
    task = Averaging(bits, servers, 1)
    assert symbol_levels(task, PROCESS) == levels
    level_db = 10 * math.log10(2) + PROCESS.device("mmi1x2").parameter("loss_db")
    assert preprocessing_loss_db(task, PROCESS) == pytest.approx([level_db * count for count in levels])


@settings(max_examples=30)
@given(tasks(), st.floats(0.0, 3.0))
def test_symbols_are_stronger_than_their_weights_and_fit_the_smallest_tree(task: Averaging, loss_db: float) -> None:
    process = with_loss(loss_db)
    levels, losses = symbol_levels(task, process), preprocessing_loss_db(task, process)
    for symbol, loss in enumerate(losses):
        assert loss - losses[0] <= 20 * math.log10(4) * symbol - 0.5 * (symbol > 0)
    leaves = task.servers * sum(2.0**-depth for depth in levels)
    assert leaves <= 1.0
    assert 2 * leaves > 1.0 or levels[0] == 0


@settings(max_examples=30)
@given(tasks())
def test_every_symbol_passes_its_levels_and_no_splitter_is_unused(task: Averaging) -> None:
    b = CircuitBuilder("p", device_types(PROCESS))
    roots = add_preprocessing(b, task, PROCESS)
    partner = {end: other for a, c in b.nets for end, other in ((a, c), (c, a))}
    depths: Counter[tuple[int, int, str]] = Counter()

    def follow(port: str, group: int, depth: int) -> bool:
        """Count the leaves of a branch; return whether light enters it."""
        name = port.rpartition(",")[0]
        if b.instances[name] == "terminator":
            return False
        if b.instances[name] == "phase_shifter":
            depths[group, depth, name] += 1
            return True
        assert port.endswith(",o1")
        lit = [follow(partner[f"{name},{branch}"], group, depth + 1) for branch in ("o2", "o3")]
        assert lit[0]
        return True

    for group, root in enumerate(roots):
        follow(root, group, 0)
    levels, size = symbol_levels(task, PROCESS), task.group_symbols
    expected = {
        (symbol // size, levels[symbol % size], f"trim_s{server}_m{symbol}")
        for symbol in range(task.symbols)
        for server in range(task.servers)
    }
    assert set(depths) == expected
    assert set(depths.values()) == {1}
    kinds = Counter(b.instances.values())
    assert kinds["mmi1x2"] == task.symbols * task.servers + kinds["terminator"] - task.groups


def test_a_splitter_with_too_much_loss_is_refused_for_groups_only() -> None:
    lossy = with_loss(9.0)
    assert symbol_levels(Averaging(4, 4, 2), lossy) == (2,)
    with pytest.raises(InputError, match=r"mmi1x2\.loss_db.*\b9 dB.*\b8\.5 dB.*groups 2"):
        symbol_levels(Averaging(4, 4, 1), lossy)


def test_shares_of_a_group_are_base_4() -> None:
    np.testing.assert_allclose(Averaging(8, 4, 1).symbol_shares, np.array([64, 16, 4, 1]) / 85)
    np.testing.assert_allclose(Averaging(8, 4, 4).symbol_shares, [1.0])
