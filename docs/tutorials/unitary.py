# %% [markdown]
# # A unitary on a chip
#
# A random unitary of 6 modes, from an array to a layout whose extracted circuit realises it.

# %%
from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats

import optinc_pdk as op

target = scipy.stats.unitary_group(6, seed=0).rvs()

# %% [markdown]
# The decomposition alone: a rectangular mesh of 15 MZIs reproduces the matrix to rounding.

# %%
mesh = op.factor.rectangular(target)
print(mesh.theta.size, "MZIs, largest error", f"{np.abs(mesh.matrix() - target).max():.1e}")

# %% [markdown]
# The chip: the mesh with losses, unequal couplers, reflections and thermal crosstalk, driven by the codes of its DAC.

# %%
folder = Path(mkdtemp())
built = op.build(target, folder, op.BuildOptions(name="unitary"))
found = built.report.matrix
print(built.report.verdict)
print(f"fidelity {found.fidelity:.6f}, largest error of an entry {found.worst_error:.2%}")
print(f"insertion loss {found.insertion_loss_db:.1f} dB")

# %%
with np.load(folder / "unitary.matrix.npz") as arrays:
    realised = arrays["chip"]
# picture: Magnitudes of target, chip and difference
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for one, values, title in zip(
    axes, (np.abs(target), np.abs(realised), np.abs(realised - target)), ("target", "chip", "difference"), strict=True
):
    image = one.imshow(values, cmap="viridis")
    one.set_title(f"|{title}|")
    figure.colorbar(image, ax=one, shrink=0.8)

# %% [markdown]
# Another unitary on the same chip:

# %%
other = scipy.stats.unitary_group(6, seed=1).rvs()
done = op.reprogram(folder / "unitary.gds", folder / "unitary.pic.yml", other, folder, op.ProgramOptions(name="other"))
print(done.report.verdict, f"{done.report.matrix.worst_error:.2%}")

# %% [markdown]
# Any matrix works, square or not, real or complex: [matrices](../matrices.md).
