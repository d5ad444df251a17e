"""Train a clipped network in PyTorch under errors, export it, and build a chip (pip install 'optinc-pdk[train]')."""

import torch
from safetensors.torch import save_file
from torch.nn import Hardtanh, Linear, Sequential
from torch.nn.utils import parametrize

import optinc_pdk as op

task = op.Averaging(bits=2, servers=4, groups=1)
x, y = (torch.tensor(points, dtype=torch.float32) for points in (task.lattice(), task.targets(task.lattice())))


class MatrixError(torch.nn.Module):
    """Random errors of 0.2 % of each weight matrix in every training step."""

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the weight with new errors."""
        size = 2e-3 * torch.linalg.matrix_norm(weight, ord=2).detach()
        return weight + size * torch.randn_like(weight) / weight.shape[1] ** 0.5


# Modulators clip at full scale, as Hardtanh(0, 1) does. The chip gets a constant unit for the bias of the last layer.
torch.manual_seed(3)
net = Sequential(Linear(1, 12), Hardtanh(0, 1), Linear(12, 6), Hardtanh(0, 1), Linear(6, 1))
with torch.no_grad():  # thresholds all over the range of the input, so that no unit is saturated everywhere
    net[0].weight.fill_(4.0)
    net[0].bias.copy_(-4.0 * torch.linspace(0.0, 3.0, 12))
for linear in net[::2]:
    parametrize.register_parametrization(linear, "weight", MatrixError())
optimizer = torch.optim.Adam(net.parameters(), lr=2e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1500)
for _ in range(1500):
    loss = (((net(x) - y).abs() - 0.1).clamp(min=0) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
for linear in net[::2]:
    parametrize.remove_parametrizations(linear, "weight", leave_parametrized=False)

# Export both formats; .onnx states the activation, .safetensors does not:
save_file(net.state_dict(), "clipped.safetensors")
torch.onnx.export(net, (x[:1],), "clipped.onnx", dynamo=False)
onn = op.AveragingNetwork.load("clipped.onnx", bits=2, servers=4, groups=1)
same = op.AveragingNetwork.load("clipped.safetensors", bits=2, servers=4, groups=1, activation="clipped_relu")
assert onn.activation == "clipped_relu" and (onn.forward(task.lattice()) == same.forward(task.lattice())).all()

# Build and check the chip:
chip = op.build(onn, "clipped_out", op.BuildOptions(name="clipped"))
print(chip.report.verdict, chip.report.function)
