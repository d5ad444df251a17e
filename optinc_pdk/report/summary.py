"""Summary of a build: a table for the terminal, and lines of text that the page uses too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from optinc_pdk.averaging import Averaging
from optinc_pdk.budgets import LimitNumbers
from optinc_pdk.io.formatting import count_text, format_si
from optinc_pdk.options import ACTIVATION_NAMES
from optinc_pdk.report.schema import (
    GeneralTaskNumbers,
    MatrixNumbers,
    MatrixTaskNumbers,
    NetworkNumbers,
    OscillatorNumbers,
    RateCountNumbers,
    Report,
    SpeedNumbers,
    TaskNumbers,
)

if TYPE_CHECKING:
    from optinc_pdk.studies.highest_rates import RateCount
    from optinc_pdk.studies.oscillators import OscillatorLight


def summary_table(report: Report) -> Table:
    """Return the summary of a build for the terminal, a table of names and texts.

    Its rows are the task, the network, its factors, the chip, each check, and the times. A part that the report does
    not have gives no row.
    """
    table = Table(title=report.name, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    task, onn, chip = report.task, report.onn, report.chip
    if report.network is not None and (accuracy := accuracy_line(report.network)):
        table.add_row("accuracy", accuracy)
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
    activation = ACTIVATION_NAMES[network.activation].partition(" (")[0]
    line = f"{units} with {activation}; chip and network agree on {network.agreeing:,} of {network.samples:,} samples"
    if network.network_accuracy is not None and network.chip_accuracy is not None:
        line += f"; accuracy {network.chip_accuracy:.2%}, in floating point {network.network_accuracy:.2%}"
    if network.network_rms_error is not None and network.chip_rms_error is not None:
        line += f"; rms error {network.chip_rms_error:.4g}, in floating point {network.network_rms_error:.4g}"
    return f"{line}; deviation {network.worst_deviation:.2%} at most, {network.rms_deviation:.2%} rms"


def accuracy_line(network: NetworkNumbers) -> str:
    """Format the accuracy of a network in floating point, and whether it is better than chance, as one line of text.

    The line is empty for data without labels.
    """
    if network.network_accuracy is None or network.confusion is None:
        return ""
    constant = max(map(sum, network.confusion)) / network.samples
    better = network.network_accuracy > constant
    chance = "" if better else f", NO BETTER THAN the most frequent label alone, {constant:.2%}"
    return (
        f"{network.network_accuracy:.2%} of {network.samples:,} samples by the network in floating point{chance}; "
        f"{network.chip_accuracy:.2%} by the chip"
    )


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
    if speed.counted is not None and speed.counted.wrong:
        return f"no symbol rate is stated: {count_line(speed.counted, accepted)}"
    if speed.symbol_rate_bd is None:
        lowest = f"; it would be lowest without {speed.main_limit}" if speed.main_limit else ""
        return f"no useful symbol rate has {accepted}{lowest}"
    counted = "" if speed.counted is None else f" and none of {speed.counted.words:,} counted wrong"
    line = f"{format_si(speed.symbol_rate_bd, 'Bd')} at {accepted}{counted}, limited by {limit_text(speed)}"
    if speed.delays_s is None or speed.word_j is None or speed.bit_j is None:
        return line
    least = "at least " if speed.missing else ""
    energy = f"{least}{format_si(speed.word_j, 'J')} a word, {format_si(speed.bit_j, 'J')} a bit"
    return f"{line}; latency {delays_text(speed.delays_s, speed.delays_missing or ())}; {energy}"


def count_line(counted: RateCount | RateCountNumbers, accepted: str) -> str:
    """Say that a count refutes the highest symbol rate of an estimate."""
    return (
        f"{format_si(counted.symbol_rate_bd, 'Bd')} has {accepted}, but {counted.wrong:,} of {counted.words:,} words "
        "counted there are wrong"
    )


def delays_text(parts_s: Mapping[str, float], missing: Sequence[str]) -> str:
    """Format the sum of delays, and each of them, as text; *at least* where a card states none."""
    named = ", ".join(f"{name} {format_si(each, 's')}" for name, each in parts_s.items())
    unknown = f"; not known: {', '.join(missing)}" if missing else ""
    return f"{'at least ' if missing else ''}{format_si(sum(parts_s.values()), 's')} ({named}{unknown})"


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
