"""Train a network in PyTorch and build a chip from it: the average of 2-bit words (pip install 'optinc-pdk[train]')."""

import torch
from safetensors.torch import save_file
from torch.nn import Linear, ReLU, Sequential

import optinc_pdk as op

task = op.Averaging(bits=2, servers=4, groups=1)
x, y = (torch.tensor(points, dtype=torch.float32) for points in (task.lattice(), task.targets(task.lattice())))

# The last layer has no bias, because receivers detect |field|². Most seeds end with a smaller margin.
torch.manual_seed(3)
net = Sequential(Linear(1, 8), ReLU(), Linear(8, 8), ReLU(), Linear(8, 1, bias=False))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(6000):
    loss = (((net(x) - y).abs() - 0.1).clamp(min=0) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# Build and check the chip:
save_file(net.state_dict(), "mine.safetensors")
onn = op.AveragingNetwork.load("mine.safetensors", bits=2, servers=4, groups=1, activation="relu")
chip = op.build(onn, "mine_out", op.BuildOptions(name="mine"))
print(chip.report.verdict, chip.report.function)
