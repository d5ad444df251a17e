"""Training data: CIFAR, handwritten digits or generated images, and a text file or Python's language reference.

Every rank draws its samples of a step with a generator seeded by (seed, step, rank), so they are equal for all schemes.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import torch

from optinc_pdk.errors import InputError

PIXELS = 32
IMAGE_BYTES = 3 * PIXELS * PIXELS
CIFAR_FILES = {
    "cifar-100": (2, 100, ("train.bin",), ("test.bin",)),
    "cifar-10": (1, 10, tuple(f"data_batch_{number}.bin" for number in range(1, 6)), ("test_batch.bin",)),
}
"""Number of label bytes before an image (the last is used), classes, files; https://www.cs.toronto.edu/~kriz/cifar.html."""

DIGITS_TEST_SHARE = 3
"""One image out of this many is used for testing."""

TOKENS = 256
"""A token is a byte."""
TEST_SHARE = 10
"""The last of this many parts of every chapter is used for testing."""


@dataclass(frozen=True)
class Data:
    """Samples to train on and to test with.

    Attributes:
        name: Description for tables.
        inputs: Images (samples, channels, edge, edge), float32; or a text (bytes,).
        targets: Classes (samples,); or the text again.
        test_inputs: Inputs for testing.
        test_targets: Targets for testing.
        classes: Number of classes or tokens.
        context: Number of tokens of a sequence; 0 for images.
    """

    name: str
    inputs: torch.Tensor
    targets: torch.Tensor
    test_inputs: torch.Tensor
    test_targets: torch.Tensor
    classes: int
    context: int = 0

    @property
    def digest(self) -> str:
        """Short hash of the data."""
        parts = (self.inputs, self.targets, self.test_inputs, self.test_targets)
        return hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()[:12]

    def batch(self, size: int, seed: int, step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Samples of a rank for a step, drawn with replacement: inputs and targets."""
        draws = np.random.default_rng((seed, step, rank))
        if self.context:
            starts = torch.from_numpy(draws.integers(len(self.inputs) - self.context, size=size))
            positions = starts[:, None] + torch.arange(self.context)
            return self.inputs[positions], self.targets[positions + 1]
        which = torch.from_numpy(draws.integers(len(self.inputs), size=size))
        return self.inputs[which], self.targets[which]

    def tests(self, size: int, most: int | None, rank: int, world: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Test samples of a rank, out of the first ``most`` samples, in batches of a given size."""
        inputs, targets = self.test_inputs, self.test_targets
        if self.context:
            count = (len(inputs) - 1) // self.context
            inputs = inputs[: count * self.context].view(count, self.context)
            targets = targets[1 : count * self.context + 1].view(count, self.context)
        return list(zip(inputs[:most][rank::world].split(size), targets[:most][rank::world].split(size), strict=True))


def cifar(folder: Path) -> Data:
    """Read CIFAR-100 (fine labels) or CIFAR-10 from the files of the binary version; images are normalised.

    Raises:
        InputError: The folder has neither, or a file is invalid.
    """
    for name, (labels, classes, train, test) in CIFAR_FILES.items():
        if (folder / train[0]).is_file():
            inputs, targets = _read_cifar(folder, train, labels, classes)
            test_inputs, test_targets = _read_cifar(folder, test, labels, classes)
            mean = inputs.mean(dim=(0, 2, 3), keepdim=True)
            scale = inputs.std(dim=(0, 2, 3), keepdim=True)
            return Data(name, (inputs - mean) / scale, targets, (test_inputs - mean) / scale, test_targets, classes)
    raise InputError(
        f"{folder}: neither train.bin of CIFAR-100 nor data_batch_1.bin of CIFAR-10; unpack the binary version there"
    )


def _read_cifar(folder: Path, names: tuple[str, ...], labels: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Read images, scaled to 0 ... 1, and their classes."""
    pieces = []
    for name in names:
        try:
            content = np.fromfile(folder / name, dtype=np.uint8)
        except OSError as fault:
            raise InputError(f"{folder / name}: {fault.strerror}; unpack all files of the binary version") from fault
        if not len(content) or len(content) % (labels + IMAGE_BYTES):
            raise InputError(
                f"{folder / name}: {len(content)} bytes are not a multiple of {labels + IMAGE_BYTES}, the size of "
                "an image with its label; unpack it again"
            )
        pieces.append(content.reshape(-1, labels + IMAGE_BYTES))
        largest = pieces[-1][:, labels - 1].max()
        if largest >= classes:
            raise InputError(f"{folder / name}: class {largest}, but there are {classes} classes; unpack it again")
    rows = np.concatenate(pieces)
    targets = rows[:, labels - 1].astype(np.int64)
    images = rows[:, labels:].reshape(-1, 3, PIXELS, PIXELS).astype(np.float32) / 255
    return torch.from_numpy(images), torch.from_numpy(targets)


def digits() -> Data:
    """Read scikit-learn's handwritten digits: 1,797 grey images of 8 × 8 pixels, normalised; a third is for testing.

    Source:
        Test set of the Optical Recognition of Handwritten Digits Data Set, UCI Machine Learning Repository (1998).

    Raises:
        InputError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as fault:
        raise InputError(
            f"the handwritten digits need scikit-learn, which cannot be imported ({fault}); pip install scikit-learn"
        ) from fault
    pixels, classes = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(classes))
    images = torch.from_numpy(pixels[order].astype(np.float32)).view(-1, 1, 8, 8)
    targets = torch.from_numpy(classes[order].astype(np.int64))
    cut = len(order) // DIGITS_TEST_SHARE
    mean, scale = images[cut:].mean(), images[cut:].std()
    images = (images - mean) / scale
    name = f"scikit-learn's handwritten digits, {len(order) - cut:,} images to train and {cut:,} to test"
    return Data(name, images[cut:], targets[cut:], images[:cut], targets[:cut], 10)


def generated_images(pixels: int, classes: int, train: int, test: int, noise: float) -> Data:
    """Generate images in CIFAR's format: the smooth pattern of a class, shifted, mixed with another pattern, and noise.

    Args:
        pixels: Edge length of an image.
        classes: Number of classes.
        train: Number of training images.
        test: Number of test images.
        noise: Standard deviation of the noise of a pixel; that of a pattern is about 1.
    """
    draws = np.random.default_rng(1905)
    patterns = _smooth(draws, classes, pixels)

    def make(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        targets = draws.integers(classes, size=count)
        shifts = draws.integers(-pixels // 4, pixels // 4 + 1, size=(2, count))
        columns = np.arange(pixels)
        rows = (columns[None, :] + shifts[0][:, None]) % pixels
        shifted = patterns[targets][
            np.arange(count)[:, None, None, None],
            np.arange(3)[None, :, None, None],
            rows[:, None, :, None],
            ((columns[None, :] + shifts[1][:, None]) % pixels)[:, None, None, :],
        ]
        images = shifted + _smooth(draws, count, pixels) + noise * draws.standard_normal(shifted.shape)
        return torch.from_numpy(images.astype(np.float32)), torch.from_numpy(targets)

    return Data(f"generated, {pixels} × {pixels}, {classes} classes", *make(train), *make(test), classes)


def _smooth(draws: np.random.Generator, count: int, pixels: int) -> np.ndarray:
    """Sums of the lowest spatial frequencies with random coefficients, (count, 3, pixels, pixels)."""
    waves = np.arange(1, 4)
    angles = 2 * np.pi * waves[:, None] * np.arange(pixels) / pixels
    basis = np.concatenate([np.cos(angles), np.sin(angles)]) / np.sqrt(len(waves))
    coefficients = draws.standard_normal((count, 3, len(basis), len(basis)))
    return np.einsum("nckl,ky,lx->ncyx", coefficients, basis, basis, optimize=True)


def text(path: Path | None, context: int) -> Data:
    """Read a text as bytes. The default is Python's language reference, which Python includes for ``help()``.

    Args:
        path: A file, or None for the default.
        context: Number of tokens of a sequence.

    Raises:
        InputError: The file cannot be read, or is too short.
    """
    contents = [np.frombuffer(part, dtype=np.uint8) for part in ([_read(path)] if path else _reference())]
    cuts = [len(content) - len(content) // TEST_SHARE for content in contents]
    train, test = (
        torch.from_numpy(np.concatenate(pieces).astype(np.int64))
        for pieces in (
            [content[:cut] for content, cut in zip(contents, cuts, strict=True)],
            [content[cut:] for content, cut in zip(contents, cuts, strict=True)],
        )
    )
    count = len(train) + len(test)
    if len(test) < 2 * context:
        least = 2 * context * TEST_SHARE
        raise InputError(
            f"{path}: {count} bytes; sequences of {context} tokens need at least {least}, give a longer text"
        )
    version = ".".join(map(str, sys.version_info[:3]))
    name = path.name if path else f"the language reference of Python {version}"
    return Data(f"{name}, {count:,} bytes", train, train, test, test, TOKENS, context)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror}); check the path") from fault


def _reference() -> list[bytes]:
    """Chapters of Python's language reference."""
    return [chapter.encode() for _, chapter in sorted(topics.items())]
