"""Certificate: bounds on the errors of an extracted chip that hold for all words and all assignments to servers.

The ideal network computes the average exactly, which its closed form proves. Its hidden signals h are within [0, 1].
The chip computes pre-activations z' = z + error from amplitudes a, which are within [0, 1] as well, because modulators
clip. For one layer, with the ideal affine map z = W h + b, and the response of the extracted chip, which is quadratic
in the amplitudes, z' = aᵀ Q a + A a + b':

    error = (A - W) a + W (a - h) + aᵀ Q a + b' - b

Every term has an interval: the first from the positive and the negative entries of A - W, as any a is possible; the
second from the interval of the previous layer's error a - h; the third from the entries of Q. Parts of A - W and Q that
are proportional to W, as an error of the gain is, have tighter bounds, because the interval of W a is known. Light from
modulators of other layers, which reflections and crosstalk add, is in A with W = 0. So is what modulators send in
quadrature because of their finite extinction, as further sources with amplitudes between 0 and the leak.

A comparator, whose ideal z never lies in (-m, 1 + m), removes errors up to m: its amplitude is then exactly 0 or 1.
Any other unit passes its error on, as clipping never enlarges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Complexes, Floats, Ints
from optinc_pdk.averaging import Averaging
from optinc_pdk.averaging.words import symbol_maxima
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.networks import AveragingNetwork, Layer, ProofError, prove, realised_network, saturation_margins
from optinc_pdk.networks.closed_form.comparators import card_form
from optinc_pdk.networks.closed_form.stage import unit_functions
from optinc_pdk.networks.normalisation import DEAD_FRACTION, hidden_maxima
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.detection import ChipNetwork, DetectionMatrix, HiddenLayer, network_of
from optinc_pdk.simulate.transmission.reception import TOP_LEVEL

ROUNDING = 1e-8
"""Added to every bound: rounding errors, and the last change of amplitudes that settle with reflections."""
PROOF_SAMPLES = 2**12
"""Random lattice points that the proof of the network evaluates besides."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds for all words and all assignments of symbols to servers.

    Attributes:
        symbol_margins: (M,) lower bound of every symbol's margin over words and servers, in levels; in steps for an
            output that carries a remainder.
        layer_errors: Upper bound of the error of a pre-activation, by hidden layer.
        layer_reserves: Smallest difference between the error that a comparator removes and its error bound, by hidden
            layer; infinite for a layer without comparators, negative if errors pass a comparator.
        signal_errors: Upper bound of the error of a modulator's amplitude, by hidden layer; 0 if comparators remove
            every error.
    """

    symbol_margins: Floats
    layer_errors: tuple[float, ...]
    layer_reserves: tuple[float, ...]
    signal_errors: tuple[float, ...]

    @property
    def margin(self) -> float:
        """Lower bound of the margin of all symbols."""
        return float(self.symbol_margins.min())

    @property
    def holds(self) -> bool:
        """Whether every server reads the ideal average of all words."""
        return self.margin > 0.0


@dataclass(frozen=True, eq=False)
class Interval:
    """Lower and upper bounds of several values.

    Attributes:
        low: Lower bounds.
        high: Upper bounds.
    """

    low: Floats
    high: Floats

    def __add__(self, other: Interval) -> Interval:
        """Bounds of the sum of two values."""
        return Interval(self.low + other.low, self.high + other.high)

    @property
    def largest(self) -> Floats:
        """Upper bounds of the absolute values."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


def certify(
    network: ChipNetwork,
    board: Board,
    bias: Bias,
    onn: AveragingNetwork,
    saturation: Sequence[Floats],
    ideal: Sequence[Interval],
) -> Certificate:
    """Bound the outputs of an extracted chip for all words and all assignments of symbols to servers.

    Args:
        network: Layers of the extracted chip on its board.
        bias: Full-scale amplitudes of the servers.
        onn: Network that the chip realises, with clipped hidden signals. It is exact.
        saturation: For each hidden layer, (units,) m > 0 of each comparator, whose pre-activation never lies in
            (-m, 1 + m), and NaN for the other units.
        ideal: For each hidden layer, bounds of the ideal pre-activations.

    Raises:
        ValueError: The chip does not have the network's layers and units.
    """
    units = [layer.gain.size for layer in network.layers]
    if units != [layer.outputs for layer in onn.layers[:-1]]:
        raise ValueError(
            f"the chip has hidden layers of {units} neurons, the network {[x.outputs for x in onn.layers[:-1]]}"
        )
    top = np.ones(network.sources)
    inputs = slice(1, 1 + sum(map(len, board.inputs)))
    top[inputs] = input_amplitudes(onn.task, board, bias)
    error = Interval(np.zeros(network.sources), np.zeros(network.sources))
    errors, reserves, signals = [], [], []
    source = inputs
    # a direct drive is steeper than the field that it causes at full scale
    steepest = float(network.receivers.modulator.slope(np.linspace(0.0, 1.0, SLOPES)).max())
    for index, (layer, margin, values) in enumerate(zip(network.layers, saturation, ideal, strict=True)):
        weight = np.zeros((layer.gain.size, network.sources))
        read = np.eye(onn.layers[index].inputs) if index else input_matrix(onn.task, top[inputs])
        weight[:, source] = onn.layers[index].weight @ read
        found = hidden_error(layer, weight, onn.layers[index].bias, top, error, values)
        errors.append(float(found.largest.max()))
        reserves.append(float(np.min((margin - found.largest)[~np.isnan(margin)], initial=np.inf)))
        passed = signal_error(found, margin)
        passed = Interval(steepest * passed.low, steepest * passed.high)
        signals.append(float(passed.largest.max()))
        source = layer.source
        error.low[source], error.high[source] = passed.low, passed.high
        # the amplitude of a unit without weights is its bias, but for its error
        constant = ~onn.layers[index].weight.any(axis=1)
        highest = np.clip(onn.layers[index].bias, 0.0, 1.0) + passed.high
        top[source] = np.where(constant, np.minimum(highest, 1.0), 1.0)
    last = np.zeros((onn.task.symbols, network.sources))
    last[:, source] = onn.layers[-1].weight
    bound = output_error(network, last, onn.layers[-1].bias, top, error, onn.task.output_resolution)
    margins = (0.5 - bound.reshape(-1, onn.task.symbols) * onn.task.output_resolution).min(axis=0)
    return Certificate(margins, tuple(errors), tuple(reserves), tuple(signals))


def input_amplitudes(task: Averaging, board: Board, bias: Bias) -> Floats:
    """Return the largest amplitude of each source at the input fibres, (servers · M,)."""
    full = np.array([bias.inputs.get(label, 1.0) for row in board.inputs for label in row])
    return np.asarray(full * np.tile(symbol_maxima(task), task.servers) / TOP_LEVEL)


def input_matrix(task: Averaging, top: Floats) -> Floats:
    """Return the (K, servers · M) matrix from amplitudes at the input fibres to the network's inputs.

    Args:
        top: (servers · M,) amplitude of each source for its largest symbol.
    """
    weights = 4.0 ** np.arange(task.group_symbols - 1, -1, -1) / task.servers
    one_server = np.kron(np.eye(task.groups), weights)
    return np.asarray(np.tile(one_server * symbol_maxima(task), task.servers) / top)


def hidden_error(
    layer: HiddenLayer, weight: Floats, bias: Floats, top: Floats, error: Interval, ideal: Interval
) -> Interval:
    """Bound the errors of the pre-activations of a hidden layer.

    Args:
        layer: Response of the extracted chip, of F sources.
        weight: (n, F) ideal weights of the sources' amplitudes; 0 for sources that the ideal layer does not read.
        bias: (n,) ideal biases.
        top: (F,) largest amplitude of each source; that of the carrier, source 0, is constant.
        error: (F,) bounds of the sources' amplitudes minus the ideal ones.
        ideal: (n,) bounds of the ideal pre-activations.

    Returns:
        (n,) bounds of chip minus ideal.
    """
    low, high = (np.empty(layer.gain.size) for _ in range(2))
    field = _all_fields(layer.detection, weight.shape[1])
    weight, top, error = _with_leaks(layer.detection.modulator.leak, weight, top, error)
    plus, minus = np.split(field, 2, axis=1)
    ends = np.append(layer.starts[1:], plus.shape[1])
    for n, row in enumerate(layer.row.tolist()):
        pairs = slice(layer.starts[row], ends[row]) if row >= 0 else slice(0, 0)
        p, m = plus[:, pairs], minus[:, pairs]
        # |fields|² of all sources: products[j, k] a_j a_k, with source 0 the carrier
        products = layer.gain[n] * ((p.conj() @ p.T).real - layer.balance[n] * (m.conj() @ m.T).real)
        constant = products[0, 0] + layer.gain[n] * layer.offset[n] - bias[n]
        signal = _propagated(weight[n], error)
        read = Interval(ideal.low[n] - bias[n] + signal.low, ideal.high[n] - bias[n] + signal.high)
        linear = 2.0 * products[0, 1:] - weight[n, 1:]
        deviation = _deviation(linear, products[1:, 1:], weight[n, 1:], top[1:], read)
        low[n] = constant + signal.low + deviation.low - ROUNDING
        high[n] = constant + signal.high + deviation.high + ROUNDING
    return Interval(low, high)


def _deviation(linear: Floats, quadratic: Floats, weight: Floats, top: Floats, read: Interval) -> Interval:
    """Bounds of linear · a + aᵀ quadratic a over all amplitudes a between 0 and ``top``, for which weight · a is known.

    What is proportional to the signal weight · a is bounded by the signal's interval ``read``, because the weights
    cancel in it: linear = α weight + rest, and quadratic = weight κᵀ + κ weightᵀ + rest. The rest is bounded entry by
    entry, and so is everything where that is tighter.
    """
    plain = _quadratic(linear, quadratic, top)
    square = float(weight @ weight)
    if square == 0.0:
        return plain
    box = _linear(weight, top)
    low, high = max(float(read.low), float(box.low)), min(float(read.high), float(box.high))
    alpha = float(linear @ weight) / square
    kappa = quadratic @ weight / square
    own = weight != 0.0
    delta = float(kappa @ weight) / square
    kappa = np.where(own, 0.5 * delta * weight, kappa)
    other = _linear(np.where(own, 0.0, 2.0 * kappa), top)
    # signal · (alpha + delta · signal + other)
    factors = [alpha + min(delta * low, delta * high) + other.low, alpha + max(delta * low, delta * high) + other.high]
    corners = [signal * factor for signal in (low, high) for factor in factors]
    rest = _quadratic(linear - alpha * weight, quadratic - np.outer(weight, kappa) - np.outer(kappa, weight), top)
    return Interval(
        np.maximum(plain.low, min(corners) + rest.low),
        np.minimum(plain.high, max(corners) + rest.high),
    )


def signal_error(error: Interval, margin: Floats) -> Interval:
    """Bound the errors of amplitudes, clip(z'), from those of pre-activations.

    Args:
        error: (n,) bounds of the pre-activations' errors.
        margin: (n,) m of units whose ideal pre-activation never lies in (-m, 1 + m); NaN for other units.
    """
    removed = np.maximum(np.nan_to_num(margin), 0.0)
    low, high = np.minimum(error.low + removed, 0.0), np.maximum(error.high - removed, 0.0)
    return Interval(np.maximum(low, -1.0), np.minimum(high, 1.0))


def output_error(
    network: ChipNetwork,
    weight: Floats,
    bias: Floats,
    top: Floats,
    error: Interval,
    resolution: Ints,
) -> Floats:
    """Bound the errors of the output levels, those that receivers read minus ideal levels.

    Args:
        network: The extracted chip.
        weight: (M, F) ideal weights of the sources' amplitudes.
        bias: (M,) ideal biases.
        top: (F,) largest amplitude of each source.
        error: (F,) bounds of the sources' amplitudes minus the ideal ones.
        resolution: (M,) decision steps per level; ideal levels are whole numbers of steps.

    Returns:
        (receivers,) upper bounds of the absolute errors, in levels; all outputs of the first server first.
    """
    receivers, symbols = network.scale.size, len(bias)
    response = _all_fields(network.receivers, weight.shape[1]) * network.scale
    weight, top, error = _with_leaks(network.receivers.modulator.leak, weight, top, error)
    ideal = np.tile(weight, (receivers // symbols, 1))
    phase = network.receivers.phase
    # photodiodes do not see the common phase that brings each receiver's fields closest to the ideal row
    turn = np.angle((ideal * response.T).sum(axis=1)) if phase is None else phase
    field = response.T * np.exp(-1j * turn)[:, np.newaxis]
    real, imaginary = field.real - ideal, field.imag
    along = _linear(real[:, 1:], top[1:]) + _propagated(ideal, error)
    across = _linear(imaginary[:, 1:], top[1:])
    constant = real[:, 0] - np.tile(bias, receivers // symbols)
    along = Interval(along.low + constant, along.high + constant)
    across = Interval(across.low + imaginary[:, 0], across.high + imaginary[:, 0])
    if phase is not None:
        return along.largest + ROUNDING
    return _level_errors(along, across.largest, network.dark * network.scale**2, resolution) + ROUNDING


def _level_errors(along: Interval, across: Floats, dark: Floats, resolution: Ints) -> Floats:
    """Upper bounds of | √(|level + along + i across|² - dark) - level | for all levels that an output may have.

    Args:
        along: (receivers,) bounds of the errors in phase with the level, in levels.
        across: (receivers,) largest errors in quadrature.
        dark: (receivers,) power that receivers subtract, in levels².
        resolution: (M,) decision steps per level.
    """
    found = np.zeros(across.shape)
    for receiver, steps in enumerate(np.tile(resolution, across.size // resolution.size).tolist()):
        level = np.arange(4 * steps) / steps
        high = np.maximum(np.abs(level + along.low[receiver]), np.abs(level + along.high[receiver]))
        inside = (level + along.low[receiver] < 0.0) & (level + along.high[receiver] > 0.0)
        low = np.where(
            inside, 0.0, np.minimum(np.abs(level + along.low[receiver]), np.abs(level + along.high[receiver]))
        )
        most = np.sqrt(np.maximum(high**2 + across[receiver] ** 2 - dark[receiver], 0.0))
        least = np.sqrt(np.maximum(low**2 - dark[receiver], 0.0))
        found[receiver] = np.maximum(most - level, level - least).max()
    return found


def _all_fields(detection: DetectionMatrix, sources: int) -> Complexes:
    """(F, D) complex field at each detector for each source; (2 F - 1, D) with what leaks through modulators."""
    real, imaginary = np.split(detection.field, 2, axis=1)
    field = np.zeros((sources, real.shape[1]), dtype=np.complex128)
    field[detection.reaching] = real + 1j * imaginary
    return np.concatenate([field, 1j * field[1:]]) if detection.modulator.leak else field


def _with_leaks(leak: float, weight: Floats, top: Floats, error: Interval) -> tuple[Floats, Floats, Interval]:
    """Weights, largest amplitudes and errors of the sources and of what leaks through each of them but the carrier."""
    if not leak:
        return weight, top, error
    none = np.zeros(len(top) - 1)
    return (
        np.hstack([weight, np.zeros((len(weight), len(none)))]),
        np.concatenate([top, np.full(len(none), leak)]),
        Interval(np.concatenate([error.low, none]), np.concatenate([error.high, none])),
    )


def _quadratic(linear: Floats, quadratic: Floats, top: Floats) -> Interval:
    """Bounds of linear · a + aᵀ quadratic a over all amplitudes a between 0 and ``top``: of the factor of each a."""
    least, most = np.minimum(quadratic, 0.0) @ top, np.maximum(quadratic, 0.0) @ top
    return Interval(np.minimum(linear + least, 0.0) @ top, np.maximum(linear + most, 0.0) @ top)


def _linear(rows: Floats, top: Floats) -> Interval:
    """Bounds of rows · a over all amplitudes a between 0 and ``top``."""
    scaled = rows * top
    return Interval(np.minimum(scaled, 0.0).sum(axis=-1), np.maximum(scaled, 0.0).sum(axis=-1))


def _propagated(rows: Floats, error: Interval) -> Interval:
    """Bounds of rows · error."""
    positive, negative = np.maximum(rows, 0.0), np.minimum(rows, 0.0)
    return Interval(
        positive @ error.low + negative @ error.high,
        positive @ error.high + negative @ error.low,
    )


SLOPES = 1001
"""Drives at which the slope of a modulator is calculated; that of a sine is largest without drive."""


class NoCertificateError(ValueError):
    """The network admits no certificate; the message states why."""


def certify_closed_form(s: Scattering, board: Board, bias: Bias, onn: AveragingNetwork) -> Certificate:
    """Prove that a network is exact, and bound the errors of the chip that realises it.

    Args:
        s: S-parameters of the whole chip at one wavelength.
        bias: Settings of neurons and receivers.
        onn: Network that the chip computes.

    Raises:
        NoCertificateError: The network is not a closed form of comparators, cannot be proved exact, or is not the one
            of the chip.
    """
    if onn.activation != "clipped_relu":
        raise NoCertificateError("the network is a ReLU network, in which no unit removes errors")
    try:
        prove(onn, samples=PROOF_SAMPLES)
        margins, ideal = list(saturation_margins(onn)), pre_activations(onn)
    except (ProofError, ValueError) as fault:
        raise NoCertificateError(f"the network has no proof: {fault}") from fault
    try:
        onn = realised_network(onn, board.layers)
    except ValueError as fault:
        raise NoCertificateError(str(fault)) from fault
    if len(onn.layers) > len(margins) + 1:
        # output neurons pass their signals on, which are the levels over the largest one
        margins.append(np.full(onn.task.symbols, np.nan))
        ideal.append(Interval(np.zeros(onn.task.symbols), np.ones(onn.task.symbols)))
    scales = amplitude_scales(onn)
    for index, scale in enumerate(scales):
        dead = scale == 0.0
        divisor = np.where(dead, 1.0, scale)
        margins[index] = np.where(scale == 1.0, margins[index], np.nan)
        low, high = (np.where(dead, 0.0, bound / divisor) for bound in (ideal[index].low, ideal[index].high))
        ideal[index] = Interval(low, high)
    analogue = [index for index, margin in enumerate(margins) if np.isnan(margin[scales[index] > 0.0]).any()]
    if analogue and not s.modulator.linear:
        raise NoCertificateError(
            f"layers.{analogue[0]} has analogue signals, which the modulators distort: their field is not proportional "
            "to the drive"
        )
    try:
        network = network_of(s, board, bias, 0)
        return certify(network, board, bias, scaled(onn, scales), margins, ideal)
    except ValueError as fault:
        raise NoCertificateError(str(fault)) from fault


def amplitude_scales(onn: AveragingNetwork) -> list[Floats]:
    """Compute the hidden signals that the chip sends with amplitude 1: their maxima over all words.

    The peaks of a closed form may be larger than what words produce. Then a signal's maximum is below 1, and it is 0
    for a comparator of a carry that never occurs; programming leaves such a unit dark.

    Returns:
        For each hidden layer, (units,) maxima over the enumerated lattice; 1 if the lattice is too large.
    """
    if not onn.task.enumerable:
        return [np.ones(layer.outputs) for layer in onn.layers[:-1]]
    return [np.where(maximum > DEAD_FRACTION, maximum, 0.0) for maximum in hidden_maxima(onn)]


def scaled(onn: AveragingNetwork, scales: Sequence[Floats]) -> AveragingNetwork:
    """Return a network with the same outputs for all words, whose hidden signals are divided by their maxima.

    Args:
        onn: Network with clipped signals.
        scales: For each hidden layer, (units,) maxima; a unit with maximum 0 loses its weights, bias and columns.
    """
    above = [np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0) for scale in scales]
    rows = [*above, np.ones(onn.layers[-1].outputs)]
    columns = [np.ones(onn.layers[0].inputs), *scales]
    layers = tuple(
        Layer(layer.weight * row[:, np.newaxis] * column, layer.bias * row)
        for layer, row, column in zip(onn.layers, rows, columns, strict=True)
    )
    return replace(onn, layers=layers)


def pre_activations(onn: AveragingNetwork) -> list[Interval]:
    """Return bounds of the ideal pre-activations of a network of comparators, for all words.

    Every unit reads one integer signal between 0 and its peak, see
    `optinc_pdk.networks.closed_form.stage.unit_functions`.

    Args:
        onn: Network of comparators, unchanged.

    Returns:
        Bounds of the units of each hidden layer.

    Raises:
        ValueError: The network's card does not describe its stages.
    """
    values = [unit_functions(stage)[1] for stage in card_form(onn.task, onn.card).stages]
    return [Interval(np.array([z.min() for z in unit]), np.array([z.max() for z in unit])) for unit in values]
