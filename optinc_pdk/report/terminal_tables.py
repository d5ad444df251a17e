"""Tables for the terminal: summary of a build, and factorisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from optinc_pdk.assemble import check_weights, mesh_depth, rectangular_slots
from optinc_pdk.averaging import Averaging
from optinc_pdk.factor import BlockFactor, SvdFactor, factor_by_parts
from optinc_pdk.networks import LayerFactor, Network, factorise
from optinc_pdk.report.formatting import count_text, format_si
from optinc_pdk.report.schema import (
    GeneralTaskNumbers,
    LimitNumbers,
    MatrixNumbers,
    MatrixTaskNumbers,
    NetworkNumbers,
    OscillatorNumbers,
    Report,
    SpeedNumbers,
    TaskNumbers,
)

if TYPE_CHECKING:
    from optinc_pdk.studies.oscillator_power import OscillatorLight


def summary_table(report: Report) -> Table:
    """Return the summary of a build as a table with one row per stage."""
    table = Table(title=report.name, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    task, onn, chip = report.task, report.onn, report.chip
    table.add_row("task", task_text(task))
    if onn is not None:
        structure = "-".join(map(str, onn.structure))
        enumerable = report.averaging is None or Averaging(**report.averaging.model_dump()).enumerable
        sample = "" if enumerable else " of sampled inputs"
        table.add_row("network", f"{structure}, {onn.accuracy:.2%}{sample} exact, margin {onn.margin:.3f} levels")
    if report.factor is not None:
        f = report.factor
        share = "without dummies" if report.kind == "matrix" else f"weights only, {f.ratio:.1%} of full SVD"
        form = "" if report.matrix is None else f"; {report.matrix.form}"
        table.add_row("factor", f"{f.mzis} MZIs ({share}), error {f.max_error:.1e}{form}")
    if chip is not None:
        size = f"{chip.width_um / 1e3:.2f} × {chip.height_um / 1e3:.2f} mm"
        table.add_row(
            "chip", f"{chip.mzis} MZIs, {chip.phase_shifters} heaters, {chip.pads} pads, {chip.fibres} fibres"
        )
        table.add_row("die", f"{size}, {chip.fit}, {chip.power_w:.2f} W, {chip.loss_db:.1f} dB")
        if chip.limits is not None:
            table.add_row("limits", ", ".join(limit_line(name, limit) for name, limit in chip.limits.items()))
    table.add_row("drc", _drc(report))
    table.add_row("lvs", _lvs(report))
    if report.kind == "averaging":
        table.add_row("function", _function(report))
    elif report.kind == "network":
        table.add_row("network", "not run" if report.network is None else network_line(report.network))
    else:
        table.add_row("matrix", "not run" if report.matrix is None else matrix_line(report.matrix))
    if chip is not None and chip.oscillators is not None:
        table.add_row("oscillators", oscillator_line(chip.oscillators))
    if report.speed is not None:
        table.add_row("speed", speed_line(report.speed))
    table.add_row("time", f"{sum(report.seconds.values()):.1f} s")
    return table


def task_text(task: TaskNumbers | GeneralTaskNumbers | MatrixTaskNumbers) -> str:
    """Format the task of a chip as text."""
    if isinstance(task, GeneralTaskNumbers):
        return general_task_text(task)
    if isinstance(task, MatrixTaskNumbers):
        return matrix_task_text(task)
    return f"average of {task.servers} words of {task.bits} bits"


def general_task_text(task: GeneralTaskNumbers) -> str:
    """Format the task of a general network as text."""
    data = {"labels": "data with labels", "outputs": "data with outputs", "inputs": "data without labels"}.get(
        task.data, "random inputs, as no data was given"
    )
    within = "" if task.data == "labels" else f" within {task.tolerance:.3g} of the largest output"
    accuracy = "" if task.accuracy is None else f", accuracy of at least {task.accuracy:.4g}"
    if task.rms_error is not None:
        accuracy += f", rms error of at most {task.rms_error:.4g}"
    return (
        f"network of {count_text(task.inputs, 'input')} and {count_text(task.outputs, 'output')}, {data}, "
        f"agreement of at least {task.agreement:.4g}{within}{accuracy}"
    )


def network_line(network: NetworkNumbers) -> str:
    """Format how well a chip computes its general network as one line of text."""
    units = "-".join(map(str, network.structure))
    activation = {"relu": "ReLU", "clipped_relu": "clipped ReLU"}[network.activation]
    line = f"{units} with {activation}; chip and network agree on {network.agreeing:,} of {network.samples:,} samples"
    if network.network_accuracy is not None and network.chip_accuracy is not None:
        line += f"; accuracy {network.chip_accuracy:.2%}, in floating point {network.network_accuracy:.2%}"
    if network.network_rms_error is not None and network.chip_rms_error is not None:
        line += f"; rms error {network.chip_rms_error:.4g}, in floating point {network.network_rms_error:.4g}"
    return f"{line}; deviation {network.worst_deviation:.2%} at most, {network.rms_deviation:.2%} rms"


def matrix_task_text(task: MatrixTaskNumbers) -> str:
    """Format the task of a matrix as text."""
    read = {"field": "fields", "real": "real parts of fields", "power": "powers"}[task.read]
    extra = task.extra_columns
    columns = f"{extra} extra column{'s' * (extra > 1)}, " if extra else ""
    if task.mesh == "triangle":
        columns = f"triangular mesh, {columns}"
    return (
        f"{task.outputs} × {task.inputs} matrix, read as {read}, {columns}"
        f"tolerance {task.tolerance:.3g} of the largest entry"
    )


def matrix_line(matrix: MatrixNumbers) -> str:
    """Format how well a chip realises its matrix as one line of text."""
    return (
        f"fidelity {matrix.fidelity:.6f}, error of an entry {100 * matrix.worst_error:.2g}% at most, "
        f"{100 * matrix.rms_error:.2g}% rms, of the largest entry; insertion loss {matrix.insertion_loss_db:.1f} dB, "
        f"common scale {matrix.scale:.4g}"
    )


def limit_line(name: str, limit: LimitNumbers) -> str:
    """Format a budget as short text; one that does not hold is marked ``MISSED``, or ``accepted`` if it was."""
    missed = "" if limit.holds is not False else " accepted" if limit.accepted else " MISSED"
    return limit.text(name) + missed


def oscillator_line(light: OscillatorLight | OscillatorNumbers) -> str:
    """Format the light of the local oscillators as one line of text."""
    fibres = "the carrier's fibre, which the chip splits" if light.split_carrier else f"each of {light.fibres} fibres"
    return (
        f"{format_si(light.fibre_w, 'W')} into {fibres}; {format_si(light.mixer_mean_w, 'W')} at a mixer on average, "
        f"{format_si(light.mixer_least_w, 'W')} at least"
    )


def speed_line(speed: SpeedNumbers) -> str:
    """Format the highest symbol rate, what limits it, latency and energy as one line of text."""
    accepted = f"an estimated word-error rate of {speed.word_error_rate:g}"
    if speed.symbol_rate_bd is None:
        lowest = f"; it would be lowest without {speed.main_limit}" if speed.main_limit else ""
        return f"no useful symbol rate has {accepted}{lowest}"
    line = f"{format_si(speed.symbol_rate_bd, 'Bd')} at {accepted}, limited by {limit_text(speed)}"
    if speed.latency_s is None or speed.word_j is None or speed.bit_j is None:
        return line
    least = "at least " if speed.missing else ""
    energy = f"{least}{format_si(speed.word_j, 'J')} a word, {format_si(speed.bit_j, 'J')} a bit"
    return f"{line}; latency {format_si(speed.latency_s, 's')}; {energy}"


def limit_text(speed: SpeedNumbers) -> str:
    """Name what limits the symbol rate of a chip; several causes with the gain in rate if one of them is left out."""
    rate = speed.symbol_rate_bd
    if rate is not None and rate >= speed.highest_bd:
        return "the highest rate of the process"
    if speed.main_limit or rate is None or speed.without is None:
        return speed.main_limit or "several causes together"
    without = {name: found for name, found in speed.without.items() if found is not None and found >= _GAIN * rate}
    if not without:
        return "several causes, none of which raises the rate if left out alone"
    gains = ", ".join(f"{name} +{found / rate - 1.0:.0%}" for name, found in without.items())
    bound = ", up to the limit of the process" if max(without.values()) >= speed.highest_bd else ""
    return f"{'several causes' if len(without) > 1 else 'one cause'} ({gains} if left out{bound})"


_GAIN = 1.01
"""Smallest ratio of rates that is a gain, because gains are printed in percent."""


def _drc(report: Report) -> str:
    if (drc := report.drc) is None:
        return "not run"
    left_out = f", {drc.not_run} not run" if drc.not_run else ""
    return f"{drc.violations} violations of {drc.rules - drc.not_run} rules{left_out}"


def _lvs(report: Report) -> str:
    if report.lvs is None:
        return "not run"
    word = "match" if report.lvs.match else "no match"
    return f"{word}: {report.lvs.devices} devices, {report.lvs.nets} nets"


def _function(report: Report) -> str:
    if report.function is None:
        return "not run"
    f = report.function
    line = f"{f.exact:,}/{f.inputs:,} words exact, margin {f.margin:.3f} levels"
    return line if f.basis is None else f"{line}; {f.basis}"


def factor_rows(
    onn: Network, splitter_db: float = 0.0, on_layer: Callable[[str, int, int], None] | None = None
) -> list[dict[str, Any]]:
    """Factor the layers of a network and returns counts, losses and errors of the factorisation.

    Args:
        onn: Network.
        splitter_db: Excess loss of a 1x2 splitter in dB, from its card.
        on_layer: Called before each layer is counted with its name, how many are done, and how many there are.

    Returns:
        One dict per layer. ``shape`` and ``method``. Numbers of MZIs: ``mzis`` by the paper's convention (arXiv
        2603.28290); ``mzis_on_chip`` including dummies and attenuators; ``mzis_needed``, the smallest sufficient
        number; ``mzis_saved``, how many fewer these are than the paper's; ``mzis_saved_by_structure``, how many fewer
        they are than for a dense matrix of this shape. ``phase_shifters``. ``tree_splitters``, the splitters and
        combiners that join blocks, and ``tree_loss_db``, their loss in dB. Errors of the factors of
        :func:`optinc_pdk.networks.factorise` relative to its optical matrices: ``relative_error`` of the layer,
        ``block_errors`` of the blocks and ``worst_block_error`` are Frobenius norms over the norm of the matrix;
        ``error`` is the largest error of an entry over the matrix's 2-norm.

    Raises:
        InputError: A matrix is zero, or an entry is outside the range that light can represent.
    """
    check_weights(onn)
    layers, rows = factorise(onn), []
    for index, layer in enumerate(layers):
        if on_layer is not None:
            on_layer(f"layer {index}", index, len(layers))
        rows.append(_factor_row(index, layer, splitter_db))
    return rows


def _factor_row(index: int, layer: LayerFactor, splitter_db: float) -> dict[str, Any]:
    out, into = layer.matrix.shape
    factor = layer.factor
    meshes: tuple[int, ...]
    joined, loss, padding = 0, 0.0, 0
    if not isinstance(factor, BlockFactor):
        parts = (factor,) if isinstance(factor, SvdFactor) else factor.parts
        sizes = [(part.v.modes, part.u.modes) for part in parts]
        method, attenuators = "svd", sum(map(min, sizes))
        meshes = tuple(modes for size in sizes for modes in size)
        # dummies make all parts as long as the longest one
        padding = sum(
            modes * (max(map(mesh_depth, side)) - mesh_depth(modes))
            for side in zip(*sizes, strict=True)
            for modes in side
        )
        thrifty = factor_by_parts(layer.matrix)
        needed, saved = thrifty.mzis, thrifty.mzis_saved_by_structure
        blocks = np.array([layer.relative_error])
    else:
        size = factor.block
        method, meshes = f"approx {size}", (size,) * len(factor.unitary)
        # the chip has one mesh for each block
        attenuators = out * -(-into // size)
        blocks = factor.block_error
        needed, saved = int(factor.needed_mzis.sum()), factor.mzis_saved_by_structure
        trees = factor.trees(splitter_db)
        joined, loss = trees.splitters + trees.combiners, trees.loss_db
    slots = [slot for modes in meshes for slot in rectangular_slots(modes)]
    active = sum(not slot.dummy for slot in slots)
    return {
        "layer": index,
        "shape": [out, into],
        "method": method,
        "mzis": factor.mzis,
        "mzis_on_chip": len(slots) + attenuators + padding,
        "mzis_needed": needed,
        "mzis_saved": factor.mzis - needed,
        "mzis_saved_by_structure": saved,
        "phase_shifters": 2 * active + attenuators,
        "tree_splitters": joined,
        "tree_loss_db": loss,
        "error": layer.max_error,
        "relative_error": layer.relative_error,
        "block_errors": blocks.tolist(),
        "worst_block_error": float(blocks.max()),
    }


def factor_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the rows of ``factor_rows`` as a table with totals; its errors are relative Frobenius norms."""
    counts = {
        "mzis": "MZIs, paper",
        "mzis_on_chip": "MZIs, chip",
        "phase_shifters": "phase shifters",
        "tree_splitters": "trees",
        "mzis_saved_by_structure": "saved by structure",
    }
    table = Table("layer", "shape", "method", *counts.values(), "error", "worst block", show_footer=True)
    for row in rows:
        shape = f"{row['shape'][0]}×{row['shape'][1]}"
        numbers = [str(row[key]) for key in counts]
        if row["tree_splitters"]:
            numbers[list(counts).index("tree_splitters")] += f", {row['tree_loss_db']:.1f} dB"
        errors = [f"{row[key]:.1e}" for key in ("relative_error", "worst_block_error")]
        table.add_row(str(row["layer"]), shape, row["method"], *numbers, *errors)
    for column, key in enumerate(counts, start=3):
        table.columns[column].footer = str(sum(row[key] for row in rows))
    table.columns[0].footer = "all"
    return table
