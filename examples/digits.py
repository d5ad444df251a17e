"""Handwritten digits on a chip: train a network of 64, 24 and 10 units in scikit-learn, build its chip, and check it.

    python examples/digits.py                        # writes into digits_out; pip install scikit-learn

The chip is checked with the third of the images that neither the training nor the scaling of its signals has seen.
"""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import optinc_pdk as op

OUT = Path("digits_out")
# 5,348 heaters need bumps and most of a reticle
PROCESS = "soi220_flipchip"

images, labels = load_digits(return_X_y=True)
train, test, train_labels, test_labels = train_test_split(
    images / 16.0, labels, test_size=1 / 3, random_state=0, stratify=labels
)
model = MLPClassifier((24,), alpha=0.1, max_iter=4000, random_state=0).fit(train, train_labels)
network = op.Onn.from_sklearn(model, input_range=(0.0, 1.0)).with_data(train)

console = Console()
with console.status("build") as status:
    built = op.build(
        network,
        OUT,
        "digits",
        PROCESS,
        data=(test, test_labels),
        on_stage=lambda stage: status.update(f"build: {stage}"),
    )
# for the commands of the command line
network.save(OUT / "network.npz")
np.savez(OUT / "test.npz", x=test, y=test_labels)

report = built.report
table = Table("quantity", "value", title=f"verdict {report.verdict}: {OUT / 'digits.report.html'}")
if report.network is not None and report.chip is not None:
    found, chip = report.network, report.chip
    accuracy = (found.network_accuracy, found.chip_accuracy)
    for name, share in zip(("floating point", "extracted chip"), accuracy, strict=True):
        table.add_row(f"accuracy, {name}", f"{share:.2%} of {found.samples} images")
    table.add_row("samples on which both agree", f"{found.agreeing} of {found.samples}")
    table.add_row("largest deviation of an output", f"{found.worst_deviation:.2%} of the largest output")
    table.add_row("MZIs, heaters", f"{chip.mzis:,}, {chip.phase_shifters:,}")
    table.add_row("die", f"{chip.width_um / 1e3:.1f} × {chip.height_um / 1e3:.1f} mm")
    table.add_row("heater power", f"{chip.power_w:.0f} W")
console.print(table)
raise SystemExit(0 if built.passed else 1)
