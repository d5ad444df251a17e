"""Standard deviation of the outputs due to noise, to first order: derivatives of the network times each noise source.

A neuron in its linear range passes the noise of its detectors on; one that is off, or whose modulator transmits
everything, does not. Near these two thresholds, the noise is weighted by the probability that it leaves the neuron in
the linear range. The independent noise of the receivers is not included, because it acts at the decision.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from optinc_pdk.circuit import Bias, Board
from optinc_pdk.simulate.s_parameters.scattering import Scattering
from optinc_pdk.simulate.transmission.detection import ChipNetwork, DetectionMatrix, HiddenLayer, network_of
from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.simulate.transmission.reception import server_amplitudes, settled_amplitudes

Floats = NDArray[np.float64]

CHUNK = 512


def output_spread(
    symbols: ArrayLike, scattering: Scattering, board: Board, bias: Bias, noise: Noise, wavelength: int = 0
) -> Floats:
    """Calculate the standard deviation of the outputs due to noise, to first order, without the receivers' own noise.

    Reflections into earlier layers are neglected, and so is the shift of the mean by noise.

    Args:
        symbols: (B, servers, M) levels 0 … 3, most significant first.
        scattering: S-parameters of the whole chip.
        board: Board netlist that joins the chip's fibres.
        bias: Electronics of the neurons and scales of the receivers.
        noise: Noise model.
        wavelength: Index of the carrier's wavelength in ``scattering``.

    Returns:
        (B, servers, M) standard deviations in levels.

    Raises:
        NetlistError: The bias lacks a neuron or a receiver.
        ValueError: ``symbols`` has a wrong shape.
        UnsettledError: Amplitudes do not converge, because reflections couple the layers.
    """
    sent = server_amplitudes(symbols, board, bias)
    network = network_of(scattering, board, bias, wavelength)
    spread = np.empty((sent.shape[0], network.scale.size))
    for start in range(0, sent.shape[0], CHUNK):
        light, _ = settled_amplitudes(sent[start : start + CHUNK], network, None, None)
        spread[start : start + CHUNK] = np.sqrt(_variance(network, light, noise))
    return spread.reshape(-1, len(board.outputs), len(board.outputs[0]))


def _variance(network: ChipNetwork, light: Floats, noise: Noise) -> Floats:
    """(B, O) variance of the outputs in levels², accumulated from the receivers back to the first layer."""
    along, across = (np.broadcast_to(part, (light.shape[0], *part.shape)) for part in _receivers(network))
    variance, slope = _sources(network.receivers, light, noise, along, across)
    for layer in reversed(network.layers):
        fields = layer.detection.fields(light)
        detectors = noise.variance(layer.detection.power(fields))
        weight = _weights(layer, layer.detection.power(fields), detectors, slope)
        variance += np.einsum("bod,bd->bo", weight**2, detectors)
        # |z|² of a field z = x exp(iφ) S + …: 2 Re(conj(z) S) by x, 2 x Re(i conj(z) S) by φ
        real, imaginary = (2.0 * weight * part[:, np.newaxis] for part in np.split(fields, 2, axis=1))
        along = np.concatenate([real, imaginary], axis=2) @ layer.detection.field.T
        across = np.concatenate([imaginary, -real], axis=2) @ layer.detection.field.T
        more, slope = _sources(layer.detection, light, noise, along, across)
        variance += more
    return variance


def _receivers(network: ChipNetwork) -> tuple[Floats, Floats]:
    """(O, L) derivatives of the outputs by the sources' amplitudes, and by their phases over amplitude.

    At a receiver, fields of all sources have equal or opposite phases apart from imperfections: half the phase of the
    sum of their squares.
    """
    real, imaginary = np.split(network.receivers.field, 2, axis=1)
    field = (real + 1j * imaginary).T
    field = field * np.exp(-0.5j * np.angle((field**2).sum(axis=1, keepdims=True))) * network.scale[:, np.newaxis]
    return field.real, -field.imag


def _weights(layer: HiddenLayer, power: Floats, variance: Floats, slope: Floats) -> Floats:
    """(B, O, D) derivatives of outputs by the layer's readings, from (B, O, n) those by its modulators' amplitudes."""
    pairs = power.shape[1] // 2
    difference = layer.difference(power)
    plus_variance, minus_variance = (layer.by_neuron(each) for each in np.split(variance, 2, axis=1))
    independent = plus_variance + layer.balance**2 * minus_variance
    # without noise a neuron is in its linear range, between 0 and full scale, or not
    deviation = np.sqrt(np.maximum(independent, np.finfo(np.float64).tiny))
    full = np.divide(1.0, layer.gain, out=np.full_like(layer.gain, np.inf), where=layer.gain > 0.0)
    gain = layer.gain * (ndtr(difference / deviation) - ndtr((difference - full) / deviation))
    # (n, d) whether a neuron reads a pair of detectors: neurons of one row share the noise of its detectors
    owner = np.repeat(np.arange(layer.starts.size), np.diff(np.append(layer.starts, pairs)))
    reads = (layer.row[:, np.newaxis] == owner).astype(np.float64)
    plus = (slope * gain[:, np.newaxis]) @ reads
    minus = (slope * (gain * layer.balance)[:, np.newaxis]) @ reads
    return np.concatenate([plus, -minus], axis=2)


def _sources(
    sight: DetectionMatrix, light: Floats, noise: Noise, along: Floats, across: Floats
) -> tuple[Floats, Floats]:
    """(B, O) variance due to a layer's sources, and (B, O, sources) derivatives of outputs by their amplitudes."""
    feed, amplitude = sight.feed, light[:, np.newaxis, sight.reaching]
    selected = (sight.reaching >= feed.sources.start) & (sight.reaching < feed.sources.stop)
    share = along * amplitude
    same = noise.correlation(feed.fibre)
    common = share[:, :, 0] + same * share[:, :, selected].sum(axis=2)
    independent = (1.0 - same**2) * (share[:, :, selected] ** 2).sum(axis=2)
    phase_variance = noise.phase(feed.fibre) ** 2 * ((across * amplitude)[:, :, selected] ** 2).sum(axis=2)
    slope = np.zeros((*share.shape[:2], feed.sources.stop - feed.sources.start))
    slope[:, :, sight.reaching[selected] - feed.sources.start] = along[:, :, selected]
    # half of the relative power is the relative amplitude
    return 0.25 * noise.intensity**2 * (common**2 + independent) + phase_variance, slope
