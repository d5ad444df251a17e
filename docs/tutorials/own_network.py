# %% [markdown]
# # Your own network
#
# Train a classifier, build its chip, and compare both. The data are the measurements of 150 iris flowers that
# scikit-learn ships. It is optional: `pip install scikit-learn`.

# %%
from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.neural_network import MLPClassifier

import optinc_pdk as op

x, y = load_iris(return_X_y=True)
model = MLPClassifier((8,), max_iter=4000, random_state=0).fit(x, y)
network = op.Network.from_sklearn(model)
print(network.structure, network.mzis, "MZIs")

# %% [markdown]
# The build draws the chip, extracts its circuit again, programs it, and sends all flowers through it.

# %%
folder = Path(mkdtemp())
built = op.build(network, folder, op.BuildOptions(name="iris", data=(x, y)))
found = built.report.network
print(built.report.verdict)
print(f"accuracy {found.chip_accuracy:.1%} on the chip, {found.network_accuracy:.1%} in floating point")
print(f"both agree on {found.agreeing} of {found.samples} flowers")

# %%
with np.load(folder / "iris.network.npz") as arrays:
    network_outputs, chip_outputs = arrays["network"], arrays["chip"]
# picture: Outputs of the chip against those of the network, and labels against chosen classes
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
axes[0].plot(network_outputs.ravel(), chip_outputs.ravel(), ".", markersize=3)
axes[0].set(xlabel="output of the network", ylabel="output of the chip")
axes[1].imshow(found.confusion, cmap="Blues")
_ = axes[1].set(xlabel="class that the chip chooses", ylabel="label")

# %% [markdown]
# The same chip computes another network of its shape; only its voltages change.

# %%
other = op.Network.from_sklearn(MLPClassifier((8,), max_iter=4000, random_state=1).fit(x, y))
again = op.reprogram(
    folder / "iris.gds", folder / "iris.pic.yml", other, folder, op.ProgramOptions(name="iris_again", data=(x, y))
)
print(again.report.verdict, f"{again.report.network.chip_accuracy:.1%}")

# %% [markdown]
# PyTorch modules work as well: `op.Network.from_torch(module)`. See [general networks](../general_networks.md).
