"""Handwritten digits on a chip: train a network of 64, 24 and 10 units under noise, build its chip, and check it.

The weights are trained as blocks of 8 × 8 that one small mesh each realises, so that light passes 8 MZIs in every layer
in place of 64 and more.

    python examples/digits.py       # writes into digits_out; pip install 'optinc-pdk[train]' scikit-learn

The chip is checked with the third of the images that neither the training nor the scaling of its signals has seen.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

import optinc_pdk as op
from optinc_pdk.networks.training.torch_modules import chip_errors, project_blocks

OUT = Path("digits_out")
# 2,188 heaters need bumps
PROCESS = "soi220_flipchip"
EPOCHS, BATCHES = 600, 10
BLOCK = 8
FIELD_NOISE = 0.06
console = Console()

images, labels = load_digits(return_X_y=True)
train, test, train_labels, test_labels = train_test_split(
    images / 16.0, labels, test_size=1 / 3, random_state=0, stratify=labels
)
torch.manual_seed(0)
module = Sequential(Linear(64, 24), ReLU(), Linear(24, 10))
optimizer = torch.optim.AdamW(module.parameters(), weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=EPOCHS * BATCHES)
x, y = torch.tensor(train, dtype=torch.float32), torch.tensor(train_labels)
with chip_errors(module, noise=0.0, field_noise=FIELD_NOISE):
    for _ in track(range(EPOCHS), "train", console=console):
        for batch in torch.randperm(len(x)).chunk(BATCHES):
            optimizer.zero_grad()
            cross_entropy(module(x[batch]), y[batch]).backward()
            optimizer.step()
            schedule.step()
            for layer in (module[0], module[2]):
                project_blocks(layer, BLOCK)

network = op.Network.from_torch(module, input_range=(0.0, 1.0))
network = replace(network, factor=(("approx", BLOCK), ("approx", BLOCK))).with_data(train)
network = network.with_accuracy(test, test_labels)
with console.status("build") as status:
    built = op.build(
        network,
        OUT,
        op.BuildOptions(name="digits", process=PROCESS, data=(test, test_labels), agreement=0.995),
        on_stage=lambda stage: status.update(f"build: {stage}"),
    )
# for the commands of the command line
network.save(OUT / "network.npz")
np.savez(OUT / "test.npz", x=test, y=test_labels)

report = built.report
table = Table("quantity", "value", title=f"verdict {report.verdict_text}: {OUT / 'digits.report.html'}")
if report.network is not None and report.chip is not None:
    found, chip = report.network, report.chip
    accuracy = (found.network_accuracy, found.chip_accuracy)
    for name, share in zip(("floating point", "extracted chip"), accuracy, strict=True):
        table.add_row(f"accuracy, {name}", f"{share:.2%} of {found.samples} images")
    table.add_row("images on which both agree", f"{found.agreeing} of {found.samples}")
    table.add_row("largest deviation of an output", f"{found.worst_deviation:.2%} of the largest output")
    table.add_row("MZIs", f"{chip.mzis:,}")
    table.add_row("heaters", f"{chip.phase_shifters:,}, {chip.power_w:.0f} W")
    table.add_row("die", f"{chip.width_um / 1e3:.1f} × {chip.height_um / 1e3:.1f} mm")
console.print(table)
raise SystemExit(0 if built.passed else 1)
