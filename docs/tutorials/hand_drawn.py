# %% [markdown]
# # From sketch to sign-off
#
# A Mach-Zehnder interferometer, drawn in gdsfactory, verified, broken, and verified again.

# %%
import os
import subprocess
from pathlib import Path
from tempfile import mkdtemp

import gdsfactory as gf
import matplotlib.pyplot as plt
import numpy as np

import optinc_pdk as op

os.chdir(mkdtemp())
# notebooks set it, and commands would draw progress bars
os.environ.pop("FORCE_COLOR", None)
op.PDK.activate()


def interferometer(delta_length: float) -> gf.Component:
    c = gf.Component(f"interferometer_{delta_length:g}")
    arms = c.add_ref(gf.get_component("mzi", delta_length=delta_length), name="arms")
    for name, port in (("in", "o1"), ("out", "o2")):
        fibre = c.add_ref(gf.get_component("grating_coupler"), name=name)
        fibre.connect("o1", arms[port])
        c.add_port(name, port=fibre["o2"])
    return c


drawn = interferometer(40.0)
drawn.write_gds("drawn.gds")
_ = drawn.write_netlist(drawn.get_netlist(recursive=True), Path("drawn.pic.yml"))

# %% [markdown]
# Design rules, layout against netlist, and S-parameters in one command:


# %%
def optinc(*arguments: str) -> None:
    done = subprocess.run(["optinc", *arguments], capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr + f"exit code {done.returncode}")


optinc("verify", "drawn.gds", "drawn.pic.yml")

# %% [markdown]
# The spectrum of the circuit that was extracted from the layout:

# %%
options = ("--wavelengths", "1530:1570:0.1", "--ports", "in,out", "-o", "drawn.s2p")
optinc("simulate", "drawn.gds", "drawn.pic.yml", *options)
rows = np.loadtxt("drawn.s2p", comments=("!", "#"))
frequency_hz, transmission = rows[:, 0], np.hypot(rows[:, 3], rows[:, 4])
# picture: Transmission of the interferometer against the wavelength
figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
axes.plot(299792458e9 / frequency_hz, 20 * np.log10(transmission))
_ = axes.set(xlabel="wavelength / nm", ylabel="in to out / dB")

# %% [markdown]
# Now a fault: the layout has an arm that is 1 µm too long, and the netlist does not. LVS names the guide and the
# lengths.

# %%
wrong = interferometer(41.0)
wrong.write_gds("drawn.gds")
optinc("lvs", "drawn.gds", "drawn.pic.yml")

# %% [markdown]
# More: [circuits drawn by hand](../how_to/hand_drawn.md).
