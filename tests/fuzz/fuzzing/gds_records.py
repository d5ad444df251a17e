"""Mutations of the records of a GDS2 stream."""

from __future__ import annotations

from random import Random

from fuzzing.octets import INTERESTING

Record = tuple[int, int, bytes]
"""Record type, data type, data."""
TYPES = (*range(0x00, 0x3C), 0x7F, 0xFF)
WORDS = (0, 1, -1, 2, 4, 255, 1000, 32767, -32768)
LONGS = (0, 1, -1, 1000, 10**6, 2**31 - 1, -(2**31), 10**9, -(10**9))


def split(data: bytes) -> list[Record]:
    """Records of a stream."""
    records, at = [], 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        if size < 4:
            break
        records.append((data[at + 2], data[at + 3], data[at + 4 : at + size]))
        at += size
    return records


def join(records: list[Record]) -> bytes:
    """Stream of records."""
    return b"".join((len(data) + 4).to_bytes(2, "big") + bytes((kind, form)) + data for kind, form, data in records)


def mutate_records(rng: Random, records: list[Record]) -> bytes:
    """Return a stream whose records are changed, exchanged, missing or repeated."""
    changed = list(records)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not changed:
            break
        at, what = rng.randrange(len(changed)), rng.randrange(10)
        kind, form, data = changed[at]
        if what == 0:
            del changed[at]
        elif what == 1:
            changed.insert(at, changed[at])
        elif what == 2:
            other = rng.randrange(len(changed))
            changed[at], changed[other] = changed[other], changed[at]
        elif what == 3:
            end = min(at + rng.randrange(1, 12), len(changed))
            place = rng.randrange(len(changed) + 1)
            changed[place:place] = changed[at:end] * rng.choice((1, 1, 3))
        elif what == 4:
            changed[at] = (rng.choice(TYPES), form, data)
        elif what == 5:
            changed[at] = (kind, rng.randrange(8), data)
        else:
            changed[at] = (kind, form, _data_changed(rng, form, data))
    stream = join(changed)
    return stream[: rng.randrange(len(stream) + 1)] if rng.random() < 0.05 else stream


def _data_changed(rng: Random, form: int, data: bytes) -> bytes:
    """Change one number or character of a record, or its length."""
    if rng.random() < 0.15 or not data:
        return rng.choice((b"", data[:-1], data[:-2], data * 2, data + b"\0\0\0\0", data[: len(data) // 2]))[:60_000]
    width = {1: 2, 2: 2, 3: 4, 4: 4, 5: 8}.get(form, 1)
    at = rng.randrange(len(data)) // width * width
    if width == 2:
        new = rng.choice(WORDS).to_bytes(2, "big", signed=True)
    elif width == 4 and rng.random() < 0.5:
        old = int.from_bytes(data[at : at + 4], "big", signed=True)
        near = old + rng.choice((-1, 1, 5, -450, 1000))
        new = max(-(2**31), min(2**31 - 1, near)).to_bytes(4, "big", signed=True)
    elif width == 4:
        new = rng.choice(LONGS).to_bytes(4, "big", signed=True)
    elif width == 8:
        exponent = bytes((rng.choice((0, 1, 0x3E, 0x41, 0x42, 0x7F, 0xC1, 0xFF)),))
        new = rng.choice((exponent + data[at + 1 : at + 8], exponent + rng.randbytes(7), bytes(8)))
    else:
        new = bytes((rng.choice(INTERESTING),))
    return data[:at] + new + data[at + width :]
