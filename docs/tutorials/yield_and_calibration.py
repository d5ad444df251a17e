# %% [markdown]
# # Imperfections, calibration and yield
#
# What is left of a chip when its devices deviate, and what calibration recovers. The chip is that of a small unitary,
# so that this takes seconds.

# %%
import json
import os
import subprocess
from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats

os.chdir(mkdtemp())
# notebooks set it, and commands would draw progress bars
os.environ.pop("FORCE_COLOR", None)
np.save("U.npy", scipy.stats.unitary_group(4, seed=0).rvs())


def optinc(*arguments: str) -> None:
    done = subprocess.run(["optinc", *arguments], capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr)


optinc("build", "U.npy", "-o", ".")

# %% [markdown]
# Five sampled chips with the imperfections of the process card, first with the codes of the bias file, then
# calibrated on a virtual bench:

# %%
optinc("yield", "U.gds", "--weights", "U.npy", "--samples", "5", "--calibrate", "--no-contributions")

# %%
picture = next(Path.cwd().glob("*.yield.png"))
# picture: Yield of the chips as drawn by optinc yield
figure, axes = plt.subplots(figsize=(9, 4))
axes.imshow(plt.imread(picture))
axes.set_axis_off()

# %% [markdown]
# The same numbers for programs:

# %%
numbers = json.loads(Path("U.yield.json").read_text())
for stage, found in numbers["stages"].items():
    worst = found["quantities"]["worst_error"]
    passed = found["yield"]["passed"]
    print(f"{stage:>8}: {passed} of {numbers['samples']} chips pass, largest error in the median {worst['median']:.2%}")

# %% [markdown]
# Every option, and chips of words and networks: [calibrate](../how_to/calibrate.md).
