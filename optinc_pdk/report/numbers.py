"""The numbers of a build: the schema of `report.json`."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

SCHEMA: Final = 1

Count = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
    )


class Task(_Strict):
    """What the network computes: the average of `servers` words of `bits` bits, from `groups` inputs."""

    bits: Count
    servers: Count
    groups: Count
    remainder: bool
    finer_input: bool


class OnnNumbers(_Strict):
    """The network in floating point, over its whole lattice."""

    structure: list[Count]
    accuracy: Fraction
    margin: float


class FactorNumbers(_Strict):
    """The matrices' factorization; MZIs by the paper's convention, weights only (arXiv 2603.28290)."""

    mzis: Count
    mzis_full_svd: Count
    ratio: NotNegative
    max_error: NotNegative


class LimitNumbers(_Strict):
    """One quantity against its limit; a limit that the process card does not give is None."""

    value: float
    limit: float | None
    unit: str
    holds: bool | None
    assumption: str


class LightNumbers(_Strict):
    """The light budget: energy per symbol and guide, and the symbol rates of light and electronics."""

    field_noise: Positive
    hop_loss_db: list[float]
    laser_w: Positive
    energy_j: Positive
    light_bd: Positive
    electronics_bd: Positive | None
    symbol_rate_bd: Positive


class CrosstalkNumbers(_Strict):
    """Thermal crosstalk: the share of a heater's phase in the guide of another at the distance."""

    share: Fraction
    distance_um: Positive


class ChipNumbers(_Strict):
    """The die: everything that is really on it, and by name what is not.

    ``crosstalk`` is what the bias makes good and the function check applies; None where the process card states none.
    """

    mzis: Count
    phase_shifters: Count
    pads: Count
    fibres: Count
    width_um: Positive
    height_um: Positive
    area_mm2: Positive
    power_w: NotNegative
    loss_db: NotNegative
    fit: str
    offchip: dict[str, Count]
    limits: dict[str, LimitNumbers] | None = None
    light: LightNumbers | None = None
    crosstalk: CrosstalkNumbers | None = None


class DrcNumbers(_Strict):
    """Design rules and what they found; ``not_run`` of them were not checked, as they need a bias.

    ``current_ma_per_um`` is the most that metal carries, ``ground_rise_mv`` the most that a heater's ground rises, both
    at the bias; None where the rules on currents were not run.
    """

    rules: Count
    violations: Count
    not_run: Count = 0
    current_ma_per_um: NotNegative | None = None
    ground_rise_mv: NotNegative | None = None


class LvsNumbers(_Strict):
    """Devices and nets extracted from the polygons, and whether they are the netlist's."""

    devices: Count
    nets: Count
    match: bool


class ErrorNumbers(_Strict):
    """Words that are wrong by one value, read minus ideal, and their share of all wrong words."""

    value: int
    count: Count
    share: Fraction


class FunctionNumbers(_Strict):
    """The extracted circuit against the ideal average, word by word.

    ``words`` are those of all servers; ``margins`` are of each symbol, most significant first; ``errors`` begin with
    the most frequent. They are None where an earlier version wrote the file.
    """

    inputs: Count
    exact: Count
    accuracy: Fraction
    margin: float
    words: Count | None = None
    margins: list[float] | None = None
    errors: list[ErrorNumbers] | None = None


class Report(_Strict):
    """`report.json`: a stage that was not reached is None, and then the verdict can't be "pass"."""

    schema_number: Literal[1] = Field(default=SCHEMA, alias="schema")
    name: str
    verdict: Literal["pass", "fail"]
    task: Task
    onn: OnnNumbers | None = None
    factor: FactorNumbers | None = None
    chip: ChipNumbers | None = None
    drc: DrcNumbers | None = None
    lvs: LvsNumbers | None = None
    function: FunctionNumbers | None = None
    files: dict[str, Sha256] = Field(default_factory=dict)
    seconds: dict[str, NotNegative] = Field(default_factory=dict)

    def failures(self) -> list[str]:
        """Every check that failed or did not run, one line each; empty for a chip that passes."""
        found = [
            f"{stage}: not run"
            for stage in ("onn", "factor", "chip", "drc", "lvs", "function")
            if getattr(self, stage) is None
        ]
        if self.drc is not None and self.drc.rules == 0:
            found.append("drc: no rule ran")
        if self.drc is not None and self.drc.violations:
            found.append(f"drc: {self.drc.violations:,} violations of {self.drc.rules} rules")
        if self.drc is not None and self.drc.not_run:
            found.append(f"drc: {self.drc.not_run:,} of {self.drc.rules} rules not run")
        if self.lvs is not None and not self.lvs.match:
            found.append("lvs: the extracted circuit is not the netlist")
        if self.function is not None and self.function.inputs == 0:
            found.append("function: no input was tried")
        if self.function is not None and self.function.exact != self.function.inputs:
            missed = self.function.inputs - self.function.exact
            found.append(f"function: {missed:,} of {self.function.inputs:,} words missed")
        return found

    @model_validator(mode="after")
    def _verdict_is_honest(self) -> Self:
        if self.verdict == "pass" and (failures := self.failures()):
            raise ValueError(f"verdict: 'pass' contradicts {'; '.join(failures)}; say 'fail'")
        return self

    def to_json(self) -> str:
        """The text of `report.json`: fields in the schema's order, files by name."""
        data = self.model_dump(by_alias=True)
        data["files"] = dict(sorted(self.files.items()))
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text of a `report.json`.

        Raises:
            ValueError: Not JSON, a key missing or unknown, or a value of another type; it names the field.
        """
        return cls.model_validate_json(text)
