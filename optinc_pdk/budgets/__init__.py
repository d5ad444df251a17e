"""Budgets of a process, and estimates of size, light and counts before a layout."""

from __future__ import annotations

from optinc_pdk.io.formatting import format_short, format_si
from optinc_pdk.io.report_models import Positive, StrictModel


class LimitNumbers(StrictModel):
    """A budget: a quantity and its limit.

    Attributes:
        value: Amount that the chip needs.
        limit: Amount available, or required of a minimum; None if the process card states none, or no amount is enough.
        unit: Unit of both.
        holds: Whether the value is within the limit; None if this is unknown.
        assumption: Assumptions behind value and limit.
        detail: Why the limit does not hold, if the numbers do not say it.
        minimum: Whether the value must be at least the limit, instead of at most.
        accepted: Whether the limit does not hold and was accepted by name; None in files of earlier versions, whose
            verdict did not depend on limits.
    """

    value: float
    limit: float | None
    unit: str
    holds: bool | None
    assumption: str
    detail: str = ""
    minimum: bool = False
    accepted: bool | None = None

    def text(self, name: str) -> str:
        """Format the budget of a name as short text, such as ``loss 54.1 of 24.2 dB``."""
        # the unit is stated once, as in "54.1 of 24.2 dB"; amounts with a prefix need both
        value = self.amount(self.value) if self.unit == "Bd" else format_short(self.value)
        text = f"{name} {value}"
        if self.limit is not None:
            least = "at least " if self.minimum else ""
            text += f" of {least}{self.amount(self.limit).removesuffix(f' {name}')}"
        elif self.holds is None:
            text += " of no limit given"
        return f"{text} ({self.detail})" if self.detail else text

    def amount(self, value: float) -> str:
        """Format a value with its unit."""
        return format_si(value, "Bd") if self.unit == "Bd" else f"{format_short(value)} {self.unit}"


class LightBudget(StrictModel):
    """Symbol rates that light and electronics allow.

    Attributes:
        field_noise: Standard deviation σ of the field noise that the network tolerates, relative to full scale.
        hop_loss_db: Loss of each layer in dB, from modulator output to detector, at full scale.
        laser_w: Optical power launched into every guide, in W.
        energy_j: Energy in J per symbol and guide that the layer with the largest loss needs.
        light_bd: Symbol rate in Bd at which ``laser_w`` provides this energy.
        electronics_bd: Largest symbol rate of the electronics in Bd; None if the process card gives none.
        symbol_rate_bd: The lower of both rates.
        mixer_w: For each layer, power in W of the weakest local oscillator at a mixer; None without mixers, or where it
            is not known and taken as strong. None in files of earlier versions.
    """

    field_noise: Positive
    hop_loss_db: list[float]
    laser_w: Positive
    energy_j: Positive
    light_bd: Positive
    electronics_bd: Positive | None
    symbol_rate_bd: Positive
    mixer_w: list[Positive | None] | None = None
