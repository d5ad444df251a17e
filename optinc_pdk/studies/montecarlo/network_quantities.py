"""Quantities of the comparison of a chip with a general network, for samples and for noise."""

from __future__ import annotations

from optinc_pdk.networks import NetworkComparison, NetworkData, NetworkLimits
from optinc_pdk.studies.montecarlo.check_outcome import Quantity


def network_quantities(data: NetworkData, limits: NetworkLimits) -> tuple[Quantity, ...]:
    """Return the quantities of the comparison with a network: agreement, accuracy or error, deviations."""
    return (
        Quantity("agreement", "samples on which chip and network agree", "%", False, limits.agreement),
        *([] if data.labels is None else [Quantity("accuracy", "accuracy", "%", False, limits.accuracy)]),
        Quantity("worst_deviation", "largest deviation of an output", "%"),
        Quantity("rms_deviation", "rms deviation of the outputs", "%"),
        *(
            []
            if data.outputs is None
            else [Quantity("rms_error", "rms error of the outputs", "", True, limits.rms_error)]
        ),
    )


def network_values(found: NetworkComparison) -> dict[str, float]:
    """Return the values of :func:`network_quantities`."""
    accuracy, error = found.chip_accuracy, found.rms_error(found.outputs)
    return (
        {"agreement": found.agreement}
        | ({} if accuracy is None else {"accuracy": accuracy})
        | {"worst_deviation": float(found.deviations.max()), "rms_deviation": found.rms}
        | ({} if error is None else {"rms_error": error})
    )
