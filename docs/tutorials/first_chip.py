# %% [markdown]
# # First chip
#
# From trained weights to a signed-off layout in a few lines. The network is one that the package contains: it
# averages the 4-bit words of 4 servers.

# %%
from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np

import optinc_pdk as op

folder = Path(mkdtemp())
built = op.build(out=folder)
print(built.report.verdict)

# %% [markdown]
# The folder has the layout, the netlist, the bias, and the results of all checks.

# %%
for path in sorted(folder.iterdir()):
    print(f"{path.stat().st_size:>9,}  {path.name}")

# %% [markdown]
# The layout, read back from the written file:

# %%
from optinc_pdk.cards import load_process
from optinc_pdk.report.layout_pictures import layout_png

process = load_process("soi220")
gds = folder / "average_4bit_4servers.gds"
picture = folder / "layout.png"
picture.write_bytes(layout_png(gds, process.gds_layers))
# picture: Layout of the chip
figure, axes = plt.subplots(figsize=(9, 4))
axes.imshow(plt.imread(picture))
axes.set_axis_off()

# %% [markdown]
# The report has everything that the checks found. The function check sent every combination of symbols through the
# circuit that was extracted from the polygons:

# %%
function = built.report.function
print(f"{function.exact:,} of {function.inputs:,} inputs exact, smallest margin {function.margin:.3f} levels")

# %% [markdown]
# The outputs of the chip for every input are in a file. A receiver decides between whole levels, so that an output
# may be wrong by half a level; these are far from it:

# %%
with np.load(folder / "average_4bit_4servers.function.npz") as arrays:
    margins = arrays["margins"]
# picture: Histogram of the margins of all outputs
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.hist(margins.ravel(), bins=60)
_ = axes.set(xlabel="margin / levels", ylabel="outputs")

# %% [markdown]
# How to read the report page: [the report](../report.md). Next: [your own network](own_network.py).
