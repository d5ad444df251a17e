"""Multilayer perceptrons of scikit-learn as networks. scikit-learn itself is not imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.errors import InputError
from optinc_pdk.networks.general_network import GeneralNetwork
from optinc_pdk.networks.model_chain import ModelStep, layer_of, network_of_steps

_CLASSES = ("MLPClassifier", "MLPRegressor")


def sklearn_network(estimator: Any, input_range: ArrayLike | None = None) -> GeneralNetwork:
    """Return the network of an estimator; see :meth:`optinc_pdk.networks.Network.from_sklearn`."""
    kind = type(estimator).__name__
    bases = {base.__name__ for base in type(estimator).__mro__ if base.__module__.partition(".")[0] == "sklearn"}
    if "Pipeline" in bases:
        raise InputError(
            f"estimator is of type {kind}; give its last step, estimator[-1], and data as estimator[:-1].transform(x)"
        )
    if bases.isdisjoint(_CLASSES):
        raise InputError(f"estimator is of type {kind}; give an MLPClassifier or MLPRegressor of scikit-learn")
    if not hasattr(estimator, "coefs_"):
        raise InputError(f"estimator, of type {kind}, is not fitted; call fit first")
    if estimator.activation != "relu" and len(estimator.coefs_) > 1:
        remedy = "with activation='relu'"
        if estimator.activation == "identity":
            remedy += ", or build the product of its matrices with op.build(matrix)"
        raise InputError(f"estimator has activation {estimator.activation!r}, which no chip computes; train {remedy}")
    card: dict[str, Any] = {}
    if "MLPClassifier" in bases:
        if estimator.out_activation_ == "logistic" and estimator.n_outputs_ > 1:
            raise InputError(
                f"estimator has {estimator.n_outputs_} labels that do not exclude each other, and a chip chooses one; "
                "train one estimator for each label"
            )
        card["classes"] = np.asarray(estimator.classes_).tolist()
    return network_of_steps(_steps(estimator), input_range, card)


def _steps(estimator: Any) -> Iterator[ModelStep]:
    """Yield the layers of an estimator, with ReLU between them."""
    for i, (weight, bias) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        if i:
            yield ModelStep(f"activation {i - 1}", "relu")
        yield ModelStep(f"coefs_[{i}]", layer_of(f"coefs_[{i}]", np.asarray(weight).T, np.asarray(bias)))
