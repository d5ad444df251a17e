# %% [markdown]
# # Gradients over the chip
#
# What a training sees if a chip averages the gradients of four servers. The chip is a table of what its receivers
# read for every input; here it is the ideal one, and one with the errors that the paper measured.

# %%
import matplotlib.pyplot as plt
import numpy as np

from optinc_collective import schemes

ideal = schemes.ideal_chip(bits=8, servers=4)
noisy = schemes.ideal_chip(bits=8, servers=4, errors=schemes.TABLE_II["3-6"])

# %% [markdown]
# Words of four servers, and their average on the chip:

# %%
random = np.random.default_rng(0)
words = random.integers(0, 256, size=(100_000, 4))
average = ideal.average(words)
print(words[0], "->", average[0])

# %% [markdown]
# The chip truncates, so that averages are 3/8 of a step low in the mean. This is what "unbiased" rounding compensates
# for.

# %%
# every server reads a word; these are equal here
deviation = average[:, 0] - words.mean(axis=1)
# picture: Histogram of deviations of the chip from the exact average
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.hist(deviation, bins=np.arange(-1.0, 0.5, 0.125) - 0.0625)
_ = axes.set(xlabel="average of the chip - exact average / steps", ylabel="words")
print(f"mean {deviation.mean():.3f} steps, stated {-ideal.truncation:.3f}")

# %% [markdown]
# A training: four servers fit a line to data of their own, and average their gradients. Gradients become words of 8
# bits with a common scale, as [the package does for PyTorch](../collective.md).


# %%
def averaged(gradients, chip):
    """Average (servers, n) gradients, exactly or as words over a chip."""
    if chip is None:
        return gradients.mean(axis=0)
    step = np.abs(gradients).max() / 127.0
    sent = np.round(gradients / step).astype(int) + 128
    return (chip.average(sent.T)[:, 0] - 128) * step


inputs = random.normal(size=(4, 200, 8))
targets = inputs @ random.normal(size=8) + 0.1 * random.normal(size=(4, 200))
# picture: Loss over the steps of the training, with exact averages and with two chips
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for name, chip in (("exact", None), ("ideal chip", ideal), ("errors of the paper's Table II", noisy)):
    weights, losses = np.zeros(8), []
    for _ in range(60):
        errors = inputs @ weights - targets
        losses.append(np.mean(errors**2))
        weights -= 0.1 * averaged(np.einsum("snk,sn->sk", inputs, errors) / 200, chip)
    axes.semilogy(losses, label=name)
    print(f"{name}: loss {losses[-1]:.4f}")
_ = axes.set(xlabel="step", ylabel="mean squared error")
_ = axes.legend(frameon=False)

# %% [markdown]
# ResNets and decoders, trained with many schemes: [trainings](../training.md).
