"""Trained models of other packages as networks: their steps, in order, as layers with one activation between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from optinc_pdk.errors import InputError
from optinc_pdk.networks.general_network import GeneralNetwork
from optinc_pdk.networks.network import Layer
from optinc_pdk.options import Activation


@dataclass(frozen=True, eq=False)
class ModelStep:
    """One step of a model.

    Attributes:
        where: Its name, for messages.
        what: A layer, or the activation after one.
    """

    where: str
    what: Layer | Activation


def network_of_steps(
    steps: Iterable[ModelStep], input_range: ArrayLike | None, card: dict[str, Any] | None = None
) -> GeneralNetwork:
    """Return the network that computes what a model does.

    Args:
        steps: Steps of the model, first to last.
        input_range: As for :meth:`optinc_pdk.networks.GeneralNetwork.of_layers`.
        card: The same.

    Raises:
        InputError: Layers and activations do not alternate, activations differ, or the last step is an activation.
    """
    layers: list[Layer] = []
    activation: Activation | None = None
    before: ModelStep | None = None
    for step in steps:
        if isinstance(step.what, Layer):
            if before is not None and isinstance(before.what, Layer):
                raise InputError(
                    f"{before.where} and {step.where}: two layers without an activation between them; multiply their "
                    "matrices to one layer"
                )
            layers.append(step.what)
        else:
            if before is None or not isinstance(before.what, Layer):
                raise InputError(f"{step.where}: an activation that does not follow a layer; remove it")
            if activation not in (None, step.what):
                raise InputError(
                    f"{step.where}: the activation is {step.what}, that of earlier layers is {activation}; train with "
                    "one activation for all layers"
                )
            activation = step.what
        before = step
    if before is None:
        raise InputError("the model has no layer; give one with two layers or more")
    if not isinstance(before.what, Layer):
        raise InputError(f"{before.where}: an activation after the last layer; end with the layer")
    try:
        return GeneralNetwork.of_layers(layers, activation or "relu", input_range, card=card)
    except ValueError as fault:
        raise InputError(str(fault)) from fault


def layer_of(where: str, weight: Any, bias: Any) -> Layer:
    """Return a layer, whose arrays are those of a model.

    Raises:
        InputError: They cannot be those of a layer; the message begins with ``where``.
    """
    try:
        return Layer(weight, bias)
    except ValueError as fault:
        raise InputError(f"{where}: {fault}") from fault
