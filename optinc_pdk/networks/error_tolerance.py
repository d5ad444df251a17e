"""Errors that a network tolerates: its accuracy with matrix and input errors, and the largest matrix error and noise.

Inputs and hidden signals have the maximum 1 over the lattice, and electronics is exact. The optical matrix of a layer
is Q / ‖Q‖₂, where Q has one row of norm 1 for all units that share a detector. In these units, a matrix error ε adds
ε G / √n, with G standard normal and n columns, once for all words; a field noise σ adds a normal term of the standard
deviation σ to every detected field, independently per detector and word.

ε* is the largest ε with 99.9 % exact words, in the mean of 100 networks with errors. σ* is the largest σ with a
word-error rate of 1e-6. This rate is extrapolated from larger noise: words are wrong where a normal error exceeds a
distance, so that the rate is close to A erfc(B / σ) / 2, and its probit close to linear in 1 / σ. The line is fitted to
rates down to 3e-5, which are counted.

:func:`tolerated_field_noise` estimates a tolerated σ from the margin instead. Every detector adds noise to the field
that it receives: those of the hidden layers, whose signals modulators transmit again, and those of the servers. A noise
σ relative to full scale at the detector is gain · ‖Q‖₂ σ before the activation; units that read the same detector
receive the same noise. It propagates to the outputs with the network's derivative at each point of the lattice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Bools, Floats
from optinc_pdk.averaging import Averaging, Score, decide, score
from optinc_pdk.networks.layers import activate, propagate
from optinc_pdk.networks.network import AveragingNetwork
from optinc_pdk.networks.normalisation import BATCH, OpticalLayer, normalise, optical_layers
from optinc_pdk.options import UPPER_LIMIT, Activation

EXACT_SHARE = 0.999
"""Share of exact words at ε*."""
WORD_ERROR_RATE = 1e-6
"""Word-error rate at σ*."""
RANGE = (1e-6, 0.3)
"""Smallest and largest error that is considered."""
PRECISION = 0.01
"""Relative precision of ε*."""
NOISE_BATCH = 1 << 15
"""Words evaluated at a time."""
FIT_RATES = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
"""Word-error rates near which noise is simulated."""
FIT_ERRORS = 200
"""Wrong words that are counted at each of these rates."""


def lattice_score(network: AveragingNetwork) -> Score:
    """Compute accuracy and margin of a network without errors, over the lattice or a sample of a large one.

    Examples:
        >>> import optinc_pdk as op
        >>> from optinc_pdk.networks import carry_chain, lattice_score
        >>> lattice_score(carry_chain(op.Averaging(bits=4, servers=4, groups=2))).accuracy
        1.0
    """
    inputs = exact = 0
    margin = 0.5
    for points in network.task.batches(BATCH):
        piece = score(network.forward(points), network.task.targets(points), network.task.output_resolution)
        inputs, exact, margin = inputs + piece.inputs, exact + piece.exact, min(margin, piece.margin)
    return Score(inputs, exact, exact / inputs, margin)


def matrix_error_accuracy(
    network: AveragingNetwork, epsilon: float, draws: int = 10, seed: int = 0, sample: int | None = None
) -> float:
    """Compute the fraction of exact words, 0 ... 1, under random matrix errors of the normalised network.

    Args:
        network: The network.
        epsilon: Relative matrix error ε: every Q, the distinct rows of a normalised weight with norm 1, becomes
            Q + ε ‖Q‖₂ G/√n, G standard normal, n columns.
        draws: Number of networks with random errors.
        seed: Seed of the generator.
        sample: Number of lattice points drawn for each of these networks; the whole lattice by default.

    Raises:
        ValueError: `epsilon` is negative or `draws` below 1.
    """
    _check_error("epsilon", epsilon, draws)
    normalised = normalise(network)
    parts = optical_layers(normalised)
    rng = np.random.default_rng(seed)
    shares = []
    for _ in range(draws):
        layers = tuple(part.with_error(epsilon, rng) for part in parts)
        exact = inputs = 0
        for points in network.task.batches(BATCH) if sample is None else [network.task.sample(sample, rng)]:
            outputs = propagate(layers, points / normalised.scales[0], network.activation)
            exact += score(outputs, network.task.targets(points), network.task.output_resolution).exact
            inputs += len(points)
        shares.append(exact / inputs)
    return float(np.mean(shares))


def input_error_accuracy(network: AveragingNetwork, error: float, draws: int = 10, seed: int = 0) -> float:
    """Compute the fraction of exact words, 0 ... 1, under uniform random errors of the inputs.

    Args:
        network: The network.
        error: Largest error, as a fraction of the largest value of each input.
        draws: Number of errors per lattice point.
        seed: Seed of the generator.

    Raises:
        ValueError: `error` is negative or `draws` below 1.
    """
    _check_error("error", error, draws)
    rng = np.random.default_rng(seed)
    exact = inputs = 0
    for points in network.task.batches():
        inputs += draws * len(points)
        levels = network.task.targets(points)
        for _ in range(draws):
            shift = error * network.task.input_maxima * rng.uniform(-1.0, 1.0, points.shape)
            exact += score(network.forward(points + shift), levels, network.task.output_resolution).exact
    return exact / inputs


def _check_error(name: str, value: float, draws: int) -> None:
    if not 0.0 <= value < np.inf:
        raise ValueError(f"{name} = {value} must be a finite number of at least 0")
    if draws < 1:
        raise ValueError(f"draws = {draws} must be at least 1")


@dataclass(frozen=True, eq=False)
class PerturbedNetwork:
    """Network in optical form, for inputs and hidden signals of 0 to 1, to be evaluated with errors."""

    layers: tuple[OpticalLayer, ...]
    task: Averaging
    activation: Activation

    def outputs(self, points: Floats, epsilon: float, sigma: float, seed: int) -> Floats:
        """Compute the (points, M) outputs in levels for (points, K) inputs with matrix error ε and field noise σ.

        The same seed gives the same G for every ε.
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
        """Count the wrong words; arguments as for `outputs`."""
        resolution = self.task.output_resolution
        levels = decide(self.outputs(points, epsilon, sigma, seed), resolution)
        # Both are multiples of 1 / resolution.
        return int((np.abs(levels - self.task.targets(points)) * resolution > 0.5).any(axis=1).sum())


def perturbed_network(network: AveragingNetwork) -> PerturbedNetwork:
    """Split the layers of a network into optical matrices and gains, to evaluate it with errors of the matrices.

    Every layer becomes W = gain · Q with rows of norm 1 in Q. Hidden signals are scaled to a maximum of 1 over the
    lattice, and units that are never positive are removed. Methods of the result take points like
    ``AveragingNetwork.forward``, not scaled.

    Raises:
        WeightsError: No unit of a hidden layer is positive anywhere on the lattice.
    """
    return PerturbedNetwork(optical_layers(normalise(network)), network.task, network.activation)


def matrix_error_tolerance(network: AveragingNetwork, draws: int = 100, words: int = 4096, seed: int = 0) -> float:
    """Measure ε*, the largest matrix error with 99.9 % exact words, to 1 %; 0 if fewer are exact without errors.

    An error ε adds ε G / √n to every optical matrix of n columns, relative to its 2-norm; G is standard normal.

    Args:
        network: The network.
        draws: Number of networks with errors, each with a G of its own, which is the same for every ε.
        words: Number of random lattice points for each of them.
        seed: Seed of errors and points.

    Raises:
        ValueError: `draws` or `words` is below 1.
    """
    _check_counts(draws=draws, words=words)
    perturbed = perturbed_network(network)
    rng = np.random.default_rng(seed)
    points = [network.task.sample(words, rng) for _ in range(draws)]

    def share(epsilon: float) -> float:
        wrong = sum(perturbed.wrong(one, epsilon, seed=seed + 1 + draw) for draw, one in enumerate(points))
        return 1.0 - wrong / (draws * words)

    return _largest(share, EXACT_SHARE)


def field_noise_tolerance(network: AveragingNetwork, seed: int = 0, fewest: float = FIT_RATES[-1]) -> float:
    """Measure σ*, the largest field noise with a word-error rate of 1e-6, extrapolated as the module describes.

    It is 0 if a word is wrong at the smallest noise considered. ``fewest`` is the smallest word-error rate that is
    counted, at most 1e-3; smaller ones take longer and are more exact.
    """
    perturbed = perturbed_network(network)

    def rate(sigma: float, errors: int, words: int) -> float:
        wrong = count = 0
        while wrong < errors and count < words:
            points = network.task.sample(NOISE_BATCH, np.random.default_rng((seed, 2, count)))
            wrong += perturbed.wrong(points, sigma=sigma, seed=seed + count)
            count += NOISE_BATCH
        return wrong / count

    start = _largest(lambda sigma: 1.0 - rate(sigma, NOISE_BATCH, NOISE_BATCH), 1.0 - FIT_RATES[0])
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


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"{name} = {value} must be at least 1")


SAMPLE = 1 << 18
"""Largest number of lattice points that are evaluated; larger lattices are represented by as many random points."""
RATIO = 1.1
"""Largest ratio of the bounds of σ at the end of the bisection."""
PIECE = 4096
"""Lattice points evaluated at a time."""


def tolerated_field_noise(network: AveragingNetwork, sigmas: float) -> float:
    """Compute the largest field noise for which every output stays ``sigmas`` standard deviations from its threshold.

    The estimate is of first order in the noise. A hidden unit passes noise on where it is active, that is, neither at 0
    nor, in a clipped network, at 1; or where it is so close to such a threshold that the noise of its own detector may
    carry it there. How many units pass noise depends on σ itself, which is therefore found by bisection.

    Returns:
        Standard deviation σ of the field noise relative to full scale, equal and independent at all detectors. 0 if any
        symbol is wrong without noise.

    Raises:
        ValueError: ``sigmas`` is not a finite number above 0.
    """
    if not 0.0 < sigmas < np.inf:
        raise ValueError(f"sigmas = {sigmas} must be a finite number above 0")
    normalised = normalise(network)
    parts = optical_layers(normalised)

    def tolerated(sigma: float) -> float:
        """Largest noise if the units that pass noise are those of a noise ``sigma``; it falls with ``sigma``."""
        reach = [sigmas * sigma * part.norm * part.gain for part in parts]
        least = np.inf
        for points in _points(network.task):
            outputs, active = _passing(parts, points / normalised.scales[0], reach, network.activation)
            distance = 0.5 / network.task.output_resolution - np.abs(outputs - network.task.targets(points))
            noise = _output_noise(parts, active, outputs.shape)
            least = min(least, float(np.min(distance / noise)) / sigmas)
        return least

    high = tolerated(0.0)
    if high <= 0.0:
        return 0.0
    low = tolerated(high)
    while high > RATIO * low:
        middle = float(np.sqrt(low * high))
        found = tolerated(middle)
        low, high = (max(low, middle), min(high, found)) if found >= middle else (max(low, found), middle)
    return low


def _points(task: Averaging) -> Iterator[Floats]:
    """Lattice points in pieces: all of them, or a sample of a lattice above `SAMPLE` points."""
    if task.lattice_size <= SAMPLE:
        yield from task.batches(PIECE)
        return
    rng = np.random.default_rng(0)
    for _ in range(SAMPLE // PIECE):
        yield task.sample(PIECE, rng)


def _passing(
    parts: tuple[OpticalLayer, ...], points: Floats, reach: list[Floats], activation: Activation
) -> tuple[Floats, list[Floats | Bools]]:
    """Outputs (P, M), and per hidden layer the slopes (P, units) of the activation, 0 for units that pass no noise."""
    signal, active = points, list[Floats | Bools]()
    layers = [part.layer() for part in parts]
    for layer, distance in zip(layers[:-1], reach, strict=False):
        before = signal @ layer.weight.T + layer.bias
        passes = before >= -distance
        if (limit := UPPER_LIMIT[activation]) is not None:
            passes &= before <= limit + distance
        if activation == "sine":
            active.append(passes * (0.5 * np.pi * np.cos(0.5 * np.pi * np.clip(before, 0.0, 1.0))))
        else:
            active.append(passes)
        signal = activate(before, activation)
    return signal @ layers[-1].weight.T + layers[-1].bias, active


def _output_noise(parts: tuple[OpticalLayer, ...], active: list[Floats | Bools], shape: tuple[int, ...]) -> Floats:
    """Standard deviation of every output for σ = 1 at every detector, (P, M)."""
    noise = np.empty(shape)
    readers = [_readers(part) for part in parts]
    for output in range(shape[1]):
        # by the rows of the last layer, then of the layers below
        slope = np.broadcast_to(readers[-1][output], (shape[0], readers[-1].shape[1]))
        variance = parts[-1].norm ** 2 * np.sum(slope**2, axis=1)
        for index in range(len(active) - 1, -1, -1):
            slope = ((slope @ parts[index + 1].matrix) * active[index]) @ readers[index]
            variance += parts[index].norm ** 2 * np.sum(slope**2, axis=1)
        noise[:, output] = np.sqrt(variance)
    return noise


def _readers(part: OpticalLayer) -> Floats:
    """(out, rows) gains with which the units of a layer read its rows."""
    readers = np.zeros((part.row.size, len(part.matrix)))
    units = np.flatnonzero(part.row >= 0)
    readers[units, part.row[units]] = part.gain[units]
    return readers
