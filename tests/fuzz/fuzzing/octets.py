"""Mutations of bytes and of text, which need no structure."""

from __future__ import annotations

from random import Random

INTERESTING = (0, 1, 2, 4, 8, 15, 16, 31, 32, 63, 64, 100, 127, 128, 129, 192, 254, 255)
MAX_BYTES = 1 << 20
"""Inputs stay below this size; readers state bounds of their own, which have tests of their own."""
TOKENS = (
    "~", "null", "true", "yes", ".nan", ".inf", "-.inf", "nan", "inf", "-inf", "NaN", "Infinity", "-Infinity", "1e999",
    "-1e999", "1e308", "1e-320", "-0.0", "-1", "0", "0x10", "0o7", "0b1", "1_000", "1:30", "18446744073709551616",
    "1" + 400 * "0", "9" * 5000, "2001-01-01", "2001-13-45", "2001-01-01T00:00:00Z", "!!python/object:os.system ''",
    "!!binary aGk=",
    "!!binary !", "!!set {a, b}", "!!omap [a: 1]", "!!timestamp 1", "!!float x", "!!int x", "!!str 1", "&a x", "*a",
    "<<: {a: 1}", "<<: *a", "<<: [1]", "? a", "? [a]\n: 1", "- ", ": ", "{", "}", "[", "]", "|", ">", "'", '"',
    "%YAML 9.9", "---", "...",
    "\t", "\u2028", "\ufeff", "\x07", "\x1b[31m", "é", "\U0001f600", "\r", "\n", "\\ud800", "\\u0000", "=", "<",
    "..", "/", ",", "a,b,c",
)  # fmt: skip


def mutate_bytes(rng: Random, data: bytes) -> bytes:
    """Change a few bytes, or a few runs of bytes."""
    buffer = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        size = len(buffer)
        at, what = rng.randrange(size + 1), rng.randrange(9)
        if what == 0 and size:
            buffer[at % size] ^= 1 << rng.randrange(8)
        elif what == 1 and size:
            buffer[at % size] = rng.choice(INTERESTING)
        elif what == 2 and size:
            buffer[at % size] = rng.randrange(256)
        elif what == 3:
            buffer[at:at] = rng.randbytes(rng.choice((1, 2, 4, 64)))
        elif what == 4:
            del buffer[at : at + rng.choice((1, 2, 4, 64, 1024))]
        elif what == 5:
            buffer[at : at + 4] = rng.choice((0, 1, 127, 128, 255, 2**31, 2**32 - 1)).to_bytes(
                4, rng.choice(("big", "little"))
            )
        elif what == 6:
            run = buffer[at : at + rng.choice((2, 8, 64, 512))]
            target = rng.randrange(size + 1)
            buffer[target:target] = run * rng.choice((1, 1, 2, 50))
        elif what == 7:
            del buffer[at:]
        else:
            buffer[at : at + 8] = rng.choice((2**63, 2**64 - 1, 2**62, 2**40, 2**32)).to_bytes(
                8, rng.choice(("big", "little"))
            )
        del buffer[MAX_BYTES:]
    return bytes(buffer)


def mutate_text(rng: Random, data: bytes) -> bytes:
    """Change words and lines: replace by odd tokens, delete, repeat, exchange, indent."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at, what = rng.randrange(len(lines)), rng.randrange(7)
        if what == 0:
            del lines[at]
        elif what == 1:
            lines.insert(rng.randrange(len(lines) + 1), lines[at])
        elif what == 2:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif what == 3:
            lines[at] = " " * rng.randrange(5) + lines[at].lstrip()
        elif what == 4:
            lines[at:at] = [rng.choice(TOKENS)]
        else:
            words = lines[at].split(" ")
            words[rng.randrange(len(words))] = rng.choice(TOKENS)
            lines[at] = " ".join(words)
        lines = lines or [""]
    return "\n".join(lines).encode("utf-8", "surrogateescape")[:MAX_BYTES]
