"""Loops over the words that a chip receives, compiled by numba at their first call.

Import this module inside functions only, see :mod:`optinc_pdk.compilation`.
"""

from __future__ import annotations

import math

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.compilation import compiled

# Words that are settled together, so that the fields at the detectors of a chip of some ten neurons stay in the cache.
_TILE = 128


@compiled
def _add_sources(
    re: Floats,
    im: Floats,
    real: Floats,
    quadrature: Floats,
    field_re: Floats,
    field_im: Floats,
    index: Ints,
    shift: int,
) -> None:
    """Adds the light of k sources to the fields of a tile of words at D detectors.

    Args:
        re: (D, tile) real parts of the fields; changed in place.
        im: (D, tile) imaginary parts.
        real: (m, tile) amplitudes.
        quadrature: (m, tile) amplitudes in quadrature.
        field_re: (F, D) real parts of the field at each detector for each source of the chip at amplitude 1.
        field_im: (F, D) imaginary parts.
        index: (k,) rows of the sources in the amplitudes.
        shift: Row of a source in the fields less its row in the amplitudes.
    """
    # four at a time: fields are loaded and stored less often
    count = len(index)
    fours = count - count % 4
    for detector in range(len(re)):
        for k in range(0, fours, 4):
            n0, n1, n2, n3 = index[k], index[k + 1], index[k + 2], index[k + 3]
            x0, y0 = field_re[n0 + shift, detector], field_im[n0 + shift, detector]
            x1, y1 = field_re[n1 + shift, detector], field_im[n1 + shift, detector]
            x2, y2 = field_re[n2 + shift, detector], field_im[n2 + shift, detector]
            x3, y3 = field_re[n3 + shift, detector], field_im[n3 + shift, detector]
            if x0 == x1 == x2 == x3 == y0 == y1 == y2 == y3 == 0.0:
                continue
            for w in range(_TILE):
                a0, a1, a2, a3 = real[n0, w], real[n1, w], real[n2, w], real[n3, w]
                q0, q1, q2, q3 = quadrature[n0, w], quadrature[n1, w], quadrature[n2, w], quadrature[n3, w]
                re[detector, w] += x0 * a0 + x1 * a1 + x2 * a2 + x3 * a3 - (y0 * q0 + y1 * q1 + y2 * q2 + y3 * q3)
                im[detector, w] += y0 * a0 + y1 * a1 + y2 * a2 + y3 * a3 + (x0 * q0 + x1 * q1 + x2 * q2 + x3 * q3)
        for k in range(fours, count):
            n = index[k]
            x, y = field_re[n + shift, detector], field_im[n + shift, detector]
            if x == y == 0.0:
                continue
            for w in range(_TILE):
                re[detector, w] += x * real[n, w] - y * quadrature[n, w]
                im[detector, w] += y * real[n, w] + x * quadrature[n, w]


@compiled
def _fill(tile: Floats, value: float) -> None:
    """Sets all entries of an (n, tile) array; to assign to a slice would compile for a second longer."""
    for row in range(len(tile)):
        for w in range(_TILE):
            tile[row, w] = value


@compiled
def _copy(source: Floats, first: int, target: Floats, shift: int, rows: int, count: int) -> None:
    """Copies a number of rows and columns of a tile, from column ``first`` on, to another, from column ``shift`` on."""
    for row in range(rows):
        for w in range(count):
            target[row, shift + w] = source[row, first + w]


@compiled
def _read_rows(re: Floats, im: Floats, row: Ints, balance: Floats, signal: Floats) -> None:
    """Calculates the detected difference of every row of one layer: its plus less balance times its minus."""
    _fill(signal, 0.0)
    pairs = len(row)
    for pair in range(pairs):
        into, weight, minus = row[pair], balance[row[pair]], pair + pairs
        for w in range(_TILE):
            plus = re[pair, w] * re[pair, w] + im[pair, w] * im[pair, w]
            signal[into, w] += plus - weight * (re[minus, w] * re[minus, w] + im[minus, w] * im[minus, w])


@compiled
def _amplitudes(
    signal: Floats,
    gain: float,
    offset: float,
    transfer: Floats,
    light: Floats,
    drive: Floats,
    step: Floats,
    difference: Floats,
    settled_change: float,
) -> int:
    """Drives the modulator of one neuron for a tile of words, and returns for how many its light has not settled.

    The drives, which are limited to 1, the steps of the amplitudes, and the differences with offset are overwritten.
    """
    last = len(transfer) - 1
    for w in range(_TILE):
        difference[w] = signal[w] + offset
        driven = gain * (difference[w] if difference[w] > 0.0 else 0.0)
        drive[w] = driven if driven < 1.0 else 1.0
        step[w] = transfer[last]
    for power in range(last - 1, -1, -1):
        coefficient = transfer[power]
        for w in range(_TILE):
            step[w] = step[w] * drive[w] + coefficient
    for w in range(_TILE):
        step[w] -= light[w]
    # a count of words, as compilers do not vectorise the maximum of floats
    moving = 0
    for w in range(_TILE):
        moving += 1 if abs(step[w]) > settled_change else 0
    return moving


@compiled
def _update_modulator(leak: float, light: Floats, step: Floats, quadrature: Floats, leak_step: Floats) -> None:
    """Changes the amplitudes of one modulator, (tile,) all, and what leaks through it in quadrature by as much."""
    for w in range(_TILE):
        light[w] += step[w]
        rest = 1.0 - light[w] * light[w]
        leaking = leak * math.sqrt(rest if rest > 0.0 else 0.0)
        leak_step[w] = leaking - quadrature[w]
        quadrature[w] = leaking


@compiled
def settle(
    light: Floats,
    first: int,
    leak: float,
    transfer: Floats,
    field_re: Floats,
    field_im: Floats,
    detector_start: Ints,
    row_of_pair: Ints,
    row_balance: Floats,
    row_start: Ints,
    neuron_start: Ints,
    row_of_neuron: Ints,
    gain: Floats,
    offset: Floats,
    receiver_re: Floats,
    receiver_im: Floats,
    passes: int,
    settled_change: float,
    differences: Floats,
    received: Floats,
) -> float:
    """Settles the light of a chip for B words, without noise.

    Indices of detectors, rows and neurons count through all layers; the arrays ``_start`` say where a layer's begin,
    with the total number at the end. The detectors of a layer are its pairs' positive ones, then the negative ones.

    Args:
        light: (F, B) amplitudes of all sources: carrier, inputs, neurons. The neurons' are overwritten.
        first: Index of the first neuron among the sources.
        leak: Amplitude that a modulator sends in quadrature at its null.
        transfer: Coefficients of a modulator's amplitude over its drive, from the constant on.
        field_re: (F, D) real parts of the field at each detector for each source at amplitude 1.
        field_im: (F, D) imaginary parts.
        detector_start: (layers + 1,) first detector of each layer.
        row_of_pair: (D / 2,) row of each pair of detectors within its layer.
        row_balance: (rows,) weight of the negative detectors.
        row_start: (layers + 1,) first row of each layer.
        neuron_start: (layers + 1,) first neuron of each layer.
        row_of_neuron: (N,) row of each neuron within its layer; -1 for a neuron without detectors.
        gain: (N,) gains.
        offset: (N,) offsets.
        receiver_re: (F, R) real parts of the field at each receiver for each source at amplitude 1.
        receiver_im: (F, R) imaginary parts.
        passes: Largest number of passes through all layers; 1 for a chip whose light goes forward only.
        settled_change: Change of amplitudes at which light has settled.
        differences: (N, B) detected differences, offsets included; overwritten.
        received: (2 R, B) fields at the receivers, real parts first; overwritten.

    Returns:
        The largest change of an amplitude in the last pass of words that have not settled; 0 if all have. A single
        pass settles all words.
    """
    words, receivers, neurons, sources = light.shape[1], receiver_re.shape[1], len(gain), len(light)
    re, im = np.empty((field_re.shape[1], _TILE)), np.empty((field_re.shape[1], _TILE))
    out_re, out_im = np.empty((receivers, _TILE)), np.empty((receivers, _TILE))
    real, quadrature = np.zeros((sources, _TILE)), np.zeros((sources, _TILE))
    step, leak_step, difference = np.empty((neurons, _TILE)), np.empty((neurons, _TILE)), np.empty((neurons, _TILE))
    moving, moved, order = np.zeros(neurons, dtype=np.int64), np.arange(neurons), np.arange(sources)
    most = 0
    for layer in range(len(row_start) - 1):
        most = max(most, row_start[layer + 1] - row_start[layer])
    signal, dark, drive = np.zeros((most, _TILE)), np.zeros(_TILE), np.empty(_TILE)
    # no literal: for one, a function is compiled once more
    zero = order[0]
    for start in range(0, words, _TILE):
        count = min(_TILE, words - start)
        _copy(light, start, real, zero, first, count)
        # neurons start in darkness, where their modulators leak most
        _fill(real[first:], 0.0)
        _fill(quadrature[first:], leak)
        for source in range(1, first):
            _fill(step[:1], 0.0)
            _update_modulator(leak, real[source], step[0], quadrature[source], leak_step[0])
        # fields of the carrier and of neurons in darkness
        for detector in range(len(re)):
            dark_re, dark_im = 0.0, 0.0
            for source in range(first, sources):
                dark_re += field_im[source, detector]
                dark_im += field_re[source, detector]
            dark_re, dark_im = field_re[0, detector] - leak * dark_re, field_im[0, detector] + leak * dark_im
            for w in range(_TILE):
                re[detector, w] = dark_re
                im[detector, w] = dark_im
        _add_sources(re, im, real, quadrature, field_re, field_im, order[1:first], zero)
        unsettled = 0
        for number in range(passes):
            for layer in range(len(detector_start) - 1):
                rows = slice(row_start[layer], row_start[layer + 1])
                begin, end = detector_start[layer], detector_start[layer + 1]
                pairs = slice(begin // 2, end // 2)
                _read_rows(re[begin:end], im[begin:end], row_of_pair[pairs], row_balance[rows], signal)
                begin, end = neuron_start[layer], neuron_start[layer + 1]
                for n in range(begin, end):
                    read = dark if row_of_neuron[n] < 0 else signal[row_of_neuron[n]]
                    moving[n] = _amplitudes(
                        read,
                        gain[n],
                        offset[n],
                        transfer,
                        real[first + n],
                        drive,
                        step[n],
                        difference[n],
                        settled_change,
                    )
                # a change within the precision of settled light need not be passed on
                sending = 0
                for n in range(begin, end):
                    if moving[n]:
                        _update_modulator(leak, real[first + n], step[n], quadrature[first + n], leak_step[n])
                        moved[sending] = n
                        sending += 1
                _add_sources(re, im, step, leak_step, field_re, field_im, moved[:sending], first)
            unsettled = 0
            for n in range(neurons):
                unsettled += moving[n]
            if number and not unsettled:
                break
        if passes > 1 and unsettled:
            largest = 0.0
            for n in range(neurons):
                if moving[n]:
                    for w in range(_TILE):
                        largest = max(largest, abs(step[n, w]))
            return largest
        _fill(out_re, 0.0)
        _fill(out_im, 0.0)
        _add_sources(out_re, out_im, real, quadrature, receiver_re, receiver_im, order, zero)
        _copy(real[first:], zero, light[first:], start, neurons, count)
        _copy(difference, zero, differences, start, neurons, count)
        _copy(out_re, zero, received, start, receivers, count)
        _copy(out_im, zero, received[receivers:], start, receivers, count)
    return 0.0


@compiled
def photodiode_levels(fields: Floats, dark: Floats, scale: Floats, levels: Floats) -> None:
    """Calculates (R, B) output levels scale · √(power - dark), or 0 where the power is below the dark power.

    The fields are (2 R, B), real parts first.
    """
    receivers = len(dark)
    for receiver in range(receivers):
        real, imaginary, level = fields[receiver], fields[receiver + receivers], levels[receiver]
        subtracted, factor = dark[receiver], scale[receiver]
        for word in range(len(level)):
            power = real[word] * real[word] + imaginary[word] * imaginary[word] - subtracted
            level[word] = factor * math.sqrt(0.0 if power < 0.0 else power)


@compiled
def count_saturated(differences: Floats, gain: Floats) -> int:
    """Returns how many amplitudes gain · difference are above 1, for (N, B) detected differences and (N,) gains."""
    count = 0
    for neuron in range(len(gain)):
        difference, factor = differences[neuron], gain[neuron]
        for word in range(len(difference)):
            count += 1 if difference[word] > 0.0 and factor * difference[word] > 1.0 else 0
    return count
