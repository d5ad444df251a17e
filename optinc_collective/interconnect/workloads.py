"""Numbers of parameters and operations of the networks trained in arXiv 2603.28290, counted layer by layer.

A multiplication with its addition is two operations; a backward pass costs two forward passes. Normalisations,
activations and the softmax are not counted as operations.
"""

from __future__ import annotations

from dataclasses import dataclass

from optinc_pdk.validation import validate_arguments

FORWARD_AND_BACKWARD = 3


@dataclass(frozen=True)
class Workload:
    """Size of a network to train: numbers of parameters and operations.

    Attributes:
        name: Name of the network in tables.
        parameters: Number of parameters, which equals the number of gradients per step.
        multiplications: Number of multiplications in a forward pass of one sample, an image or a token.
    """

    name: str
    parameters: int
    multiplications: int

    @property
    def flop(self) -> float:
        """Number of floating-point operations of a forward and a backward pass of one sample.

        It is 6 × `multiplications`: two operations per multiplication, and a backward pass costs two forward passes.
        """
        return 2.0 * FORWARD_AND_BACKWARD * self.multiplications


@validate_arguments
def resnet50(pixels: int, classes: int, small_stem: bool) -> Workload:
    """Count the parameters and operations of ResNet-50 (arXiv 1512.03385). A sample is an image.

    Args:
        pixels: Edge length of the square image, in pixels.
        classes: Number of classes.
        small_stem: Whether the first convolution is 3 × 3 at full size, as usual for CIFAR, instead of 7 × 7 with
            pooling, which reduces the edge length to a quarter.
    """
    parameters, multiplications, channels = 0, 0, 64
    edge = pixels if small_stem else -(-pixels // 2)

    def convolve(inputs: int, outputs: int, kernel: int) -> None:
        nonlocal parameters, multiplications
        weights = inputs * outputs * kernel * kernel
        parameters += weights + 2 * outputs  # including scale and shift of the normalisation
        multiplications += weights * edge * edge

    convolve(3, 64, 3 if small_stem else 7)
    edge = edge if small_stem else -(-edge // 2)
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            convolve(channels, width, 1)
            if stage and not block:
                edge = -(-edge // 2)
            convolve(width, width, 3)
            convolve(width, 4 * width, 1)
            if not block:
                convolve(channels, 4 * width, 1)
            channels = 4 * width
    parameters += channels * classes + classes
    multiplications += channels * classes
    return Workload(f"ResNet-50, {pixels} × {pixels}", parameters, multiplications)


@validate_arguments
def llama(layers: int, hidden: int, feed_forward: int, vocabulary: int, context: int) -> Workload:
    """Count the parameters and operations of a LLaMA-style decoder (arXiv 2302.13971). A sample is a token.

    Input and output embeddings are separate matrices.

    Args:
        layers: Number of decoder layers.
        hidden: Hidden dimension of the model.
        feed_forward: Inner dimension of the feed-forward block, which has three matrices.
        vocabulary: Number of different tokens.
        context: Number of tokens of a sequence; a token attends to half of them on average.
    """
    matrices = layers * (4 * hidden * hidden + 3 * hidden * feed_forward)
    norms = (2 * layers + 1) * hidden
    attention = layers * hidden * context  # products with keys and with values, over half of the context each
    return Workload(
        f"LLaMA-style, {layers} × {hidden}",
        matrices + norms + 2 * vocabulary * hidden,
        matrices + attention + vocabulary * hidden,
    )
