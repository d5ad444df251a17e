"""Counts and errors of the factors of layers of every kind."""

from __future__ import annotations

import numpy as np

from optinc_pdk.averaging import Averaging
from optinc_pdk.budgets.factor_counts import factor_rows
from optinc_pdk.networks import AveragingNetwork, Layer, factorise
from optinc_pdk.report.tables import factor_table


def network() -> AveragingNetwork:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(8, 4)), np.kron(np.eye(2), np.ones((4, 4))), rng.normal(size=(4, 8))]
    # biases that keep every hidden unit alive; one at the outputs would need another hidden unit
    layers = tuple(
        Layer(weight, np.full(len(weight), bias)) for weight, bias in zip(weights, (1e3, 1e3, 0.0), strict=True)
    )
    return AveragingNetwork(layers, Averaging(8, 4, 4), ("svd", ("approx", 4), ("approx", 4)))


def test_rows_count_mzis_trees_and_savings() -> None:
    whole, blocks, added = factor_rows(network(), splitter_db=0.3)
    assert (whole["mzis"], whole["mzis_on_chip"]) == (8 * 9 // 2 + 6, 36 + 14 - 8 - 2 + 4 + 6)
    assert whole["tree_splitters"] == 0 and whole["tree_loss_db"] == 0.0
    assert whole["mzis_saved"] == whole["mzis"] - (4 * (8 + 4 - 4) - 1)
    assert whole["mzis_needed"] == 4 * 8 - 1 and whole["mzis_saved_by_structure"] == 0
    assert whole["error"] < 1e-12 and whole["relative_error"] == whole["worst_block_error"] < 1e-12
    # two of four blocks are zero: they need no trees and none of their 10 MZIs
    assert blocks["mzis"] == 40 and blocks["mzis_saved"] >= 20
    assert blocks["mzis_saved_by_structure"] >= blocks["mzis_saved"] - 1
    assert blocks["tree_splitters"] == 0
    assert added["mzis"] == 20 and added["mzis_on_chip"] == 2 * (6 + 4 + 4)
    assert added["phase_shifters"] == 2 * (12 + 4)
    assert added["tree_splitters"] == 4
    assert added["error"] > 1e-3 and added["worst_block_error"] > added["error"]
    assert added["mzis_saved_by_structure"] == 0 < added["mzis_saved"]


def test_errors_are_relative_to_layer_and_blocks() -> None:
    onn = network()
    row, layer = factor_rows(onn)[2], factorise(onn)[2]
    factor, matrix = layer.factor, layer.matrix
    assert row["relative_error"] == np.linalg.norm(factor.matrix() - matrix) / np.linalg.norm(matrix) > row["error"]
    assert row["block_errors"] == factor.block_error.tolist()
    assert row["worst_block_error"] == max(row["block_errors"])
    table = factor_table([row])
    shown = {column.header: next(iter(column.cells)) for column in table.columns}
    assert shown["error"] == f"{row['relative_error']:.1e}"
    assert shown["worst block"] == f"{row['worst_block_error']:.1e}"


def test_trees_are_counted_with_their_loss() -> None:
    onn = network()
    layers = (onn.layers[0], Layer(np.random.default_rng(1).normal(size=(8, 8)), np.zeros(8)), onn.layers[2])
    row = factor_rows(AveragingNetwork(layers, onn.task, onn.factor), splitter_db=0.3)[1]
    assert row["tree_splitters"] == 8 + 8
    np.testing.assert_allclose(row["tree_loss_db"], 2 * (10 * np.log10(2) + 0.3))


def test_the_footers_are_sums() -> None:
    rows = factor_rows(network())
    table = factor_table(rows)
    footers = {column.header: column.footer for column in table.columns}
    assert footers["MZIs, paper"] == str(sum(row["mzis"] for row in rows))
    assert footers["saved by structure"] == str(sum(row["mzis_saved_by_structure"] for row in rows))
    assert table.row_count == 3
