"""Largest matrix error ε* and field noise σ* that a network tolerates.

Inputs and hidden signals have the maximum 1 over the lattice, and electronics is exact. The optical matrix of a layer
is Q / ‖Q‖₂, where Q has one row of norm 1 for all units that share a detector. In these units, a matrix error ε adds
ε G / √n, with G standard normal and n columns, once for all words; a field noise σ adds a normal term of the standard
deviation σ to every detected field, independently per detector and word.

ε* is the largest ε with 99.9 % exact words, in the mean of 100 networks with errors. σ* is the largest σ with a
word-error rate of 1e-6. This rate is extrapolated from larger noise: words are wrong where a normal error exceeds a
distance, so that the rate is close to A erfc(B / σ) / 2, and its probit close to linear in 1 / σ. The line is fitted to
rates down to 3e-5, which are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging, decide
from optinc_pdk.networks.network import AveragingNetwork, activate
from optinc_pdk.networks.normalisation import OpticalLayer, normalise, optical_layers
from optinc_pdk.options import Activation

EXACT_SHARE = 0.999
"""Share of exact words at ε*."""
WORD_ERROR_RATE = 1e-6
"""Word-error rate at σ*."""
RANGE = (1e-6, 0.3)
"""Smallest and largest error that is considered."""
PRECISION = 0.01
"""Relative precision of ε*."""
BATCH = 1 << 15
"""Words evaluated at a time."""
FIT_RATES = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
"""Word-error rates near which noise is simulated."""
FIT_ERRORS = 200
"""Wrong words that are counted at each of these rates."""


@dataclass(frozen=True, eq=False)
class PerturbedNetwork:
    """Network in optical form, to be evaluated with errors.

    Attributes:
        layers: Layers for inputs and hidden signals of 0 to 1.
        task: The averaging task.
        activation: Activation of the hidden layers.
    """

    layers: tuple[OpticalLayer, ...]
    task: Averaging
    activation: Activation

    def outputs(self, points: Floats, epsilon: float, sigma: float, seed: int) -> Floats:
        """Computes the outputs with errors.

        Args:
            points: (points, K) network inputs.
            epsilon: Matrix error; the same seed gives the same G for every ε.
            sigma: Field noise.
            seed: Seed of both errors.

        Returns:
            (points, M) outputs in levels.
        """
        signal = points / self.task.input_maxima
        matrices, noise = np.random.default_rng((seed, 0)), np.random.default_rng((seed, 1))
        for index, layer in enumerate(self.layers):
            part = layer.with_error(epsilon, matrices) if epsilon else layer.layer()
            signal = signal @ part.weight.T + part.bias
            if sigma:
                fields = noise.standard_normal((len(points), len(layer.matrix)))
                signal += sigma * layer.norm * layer.gain * fields[:, layer.row]
            if index < len(self.layers) - 1:
                activate(signal, self.activation)
        return signal

    def wrong(self, points: Floats, epsilon: float = 0.0, sigma: float = 0.0, seed: int = 0) -> int:
        """Counts the wrong words; arguments as for `outputs`."""
        resolution = self.task.output_resolution
        levels = decide(self.outputs(points, epsilon, sigma, seed), resolution)
        # Both are multiples of 1 / resolution.
        return int((np.abs(levels - self.task.targets(points)) * resolution > 0.5).any(axis=1).sum())


def perturbed_network(onn: AveragingNetwork) -> PerturbedNetwork:
    """Brings a network into optical form with signals of 0 to 1, without dead units."""
    return PerturbedNetwork(optical_layers(normalise(onn)), onn.task, onn.activation)


def matrix_error_tolerance(onn: AveragingNetwork, draws: int = 100, words: int = 4096, seed: int = 0) -> float:
    """Measures ε*, the largest matrix error with 99.9 % exact words.

    Args:
        onn: The network.
        draws: Number of networks with errors; each has the same G for every ε.
        words: Number of random lattice points per network.
        seed: Seed of errors and points.

    Returns:
        ε*, to 1 %. 0 if fewer than 99.9 % of the words are exact without errors.

    Raises:
        ValueError: `draws` or `words` is below 1.
    """
    _check(draws=draws, words=words)
    network = perturbed_network(onn)
    rng = np.random.default_rng(seed)
    points = [onn.task.sample(words, rng) for _ in range(draws)]

    def share(epsilon: float) -> float:
        wrong = sum(network.wrong(one, epsilon, seed=seed + 1 + draw) for draw, one in enumerate(points))
        return 1.0 - wrong / (draws * words)

    return _largest(share, EXACT_SHARE)


def field_noise_tolerance(onn: AveragingNetwork, seed: int = 0, fewest: float = FIT_RATES[-1]) -> float:
    """Measures σ*, the largest field noise with a word-error rate of 1e-6.

    Args:
        onn: The network.
        seed: Seed of noise and words.
        fewest: Smallest word-error rate that is counted, at most 1e-3; smaller ones take longer and are more exact.

    Returns:
        σ*, extrapolated as the module describes. 0 if a word is wrong at the smallest noise considered.
    """
    network = perturbed_network(onn)

    def rate(sigma: float, errors: int, words: int) -> float:
        wrong = count = 0
        while wrong < errors and count < words:
            points = onn.task.sample(BATCH, np.random.default_rng((seed, 2, count)))
            wrong += network.wrong(points, sigma=sigma, seed=seed + count)
            count += BATCH
        return wrong / count

    start = _largest(lambda sigma: 1.0 - rate(sigma, BATCH, BATCH), 1.0 - FIT_RATES[0])
    if not start:
        return 0.0
    measured: list[tuple[float, float]] = []
    sigma = start
    for aim in [one for one in FIT_RATES if one >= fewest]:
        if len(measured) > 1:
            sigma = _extrapolated(measured, aim)
        elif measured:
            sigma *= 0.9
        found = rate(sigma, FIT_ERRORS, int(2 * FIT_ERRORS / aim))
        if not found:
            break
        measured.append((sigma, found))
    return _extrapolated(measured, WORD_ERROR_RATE)


def _extrapolated(measured: list[tuple[float, float]], rate: float) -> float:
    """Noise at a word-error rate, from the line of the probit over 1 / σ through the last four measured rates."""
    from scipy.special import ndtri

    sigmas, rates = np.array(measured[-4:]).T
    slope, offset = np.polyfit(1.0 / sigmas, ndtri(rates), 1)
    return float(slope / (ndtri(rate) - offset))


def _largest(share: Callable[[float], float], limit: float) -> float:
    """Largest error at which the share of exact words reaches a limit, by bisection of its logarithm; 0 if none."""
    low, high = np.log(RANGE[0]), np.log(RANGE[1])
    if share(RANGE[0]) < limit:
        return 0.0
    while high - low > PRECISION:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(float(np.exp(middle))) >= limit else (low, middle)
    return float(np.exp(low))


def _check(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"{name} = {value} must be at least 1")
