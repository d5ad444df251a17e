"""The schema of `report.json`: the numbers of a build."""

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


class TaskNumbers(_Strict):
    """The task: the average of `servers` words of `bits` bits, computed from `groups` network inputs."""

    bits: Count
    servers: Count
    groups: Count
    remainder: bool
    finer_input: bool


class OnnNumbers(_Strict):
    """The network in floating point, evaluated on its whole lattice; `margin` in levels."""

    structure: list[Count]
    accuracy: Fraction
    margin: float


class FactorNumbers(_Strict):
    """Factorisation of the matrices; MZIs by the paper's convention, weights only (arXiv 2603.28290)."""

    mzis: Count
    mzis_full_svd: Count
    ratio: NotNegative
    max_error: NotNegative


class LimitNumbers(_Strict):
    """A quantity and its limit; `limit` is None where the process card gives none."""

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
    """Thermal crosstalk: the share of a heater's phase in another heater's guide at the distance."""

    share: Fraction
    distance_um: Positive


class ChipNumbers(_Strict):
    """The dies: all parts on them, and by name the parts off-chip.

    ``crosstalk`` is the thermal crosstalk that the bias compensates and the function check applies; None where the
    process card states none.
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
    """Design rules and their violations; ``not_run`` rules were not checked because they need a bias.

    ``current_ma_per_um`` is the highest current density in metal, ``ground_rise_mv`` the highest voltage of a heater's
    ground, both at the bias; None where the rules on currents were not run.
    """

    rules: Count
    violations: Count
    not_run: Count = 0
    current_ma_per_um: NotNegative | None = None
    ground_rise_mv: NotNegative | None = None


class LvsNumbers(_Strict):
    """Number of devices and nets extracted from the polygons, and whether they match the netlist."""

    devices: Count
    nets: Count
    match: bool


class ErrorNumbers(_Strict):
    """Words with one error value, read minus ideal: their number, and their share of all wrong words."""

    value: int
    count: Count
    share: Fraction


class FunctionNumbers(_Strict):
    """The extracted circuit compared with the ideal average, word by word.

    ``words`` counts the words of all servers; ``margins`` are by symbol, most significant first, in levels; ``errors``
    begin with the most frequent. All three are None in files of earlier versions.
    """

    inputs: Count
    exact: Count
    accuracy: Fraction
    margin: float
    words: Count | None = None
    margins: list[float] | None = None
    errors: list[ErrorNumbers] | None = None


class Report(_Strict):
    """`report.json`; a stage that was not reached is None, and the verdict is then "fail"."""

    schema_number: Literal[1] = Field(default=SCHEMA, alias="schema")
    name: str
    verdict: Literal["pass", "fail"]
    task: TaskNumbers
    onn: OnnNumbers | None = None
    factor: FactorNumbers | None = None
    chip: ChipNumbers | None = None
    drc: DrcNumbers | None = None
    lvs: LvsNumbers | None = None
    function: FunctionNumbers | None = None
    files: dict[str, Sha256] = Field(default_factory=dict)
    seconds: dict[str, NotNegative] = Field(default_factory=dict)

    def failures(self) -> list[str]:
        """Checks that failed or did not run, one line each; empty for a chip that passes."""
        failures = [
            f"{stage}: not run"
            for stage in ("onn", "factor", "chip", "drc", "lvs", "function")
            if getattr(self, stage) is None
        ]
        if self.drc is not None and self.drc.rules == 0:
            failures.append("drc: no rule ran")
        if self.drc is not None and self.drc.violations:
            failures.append(f"drc: {self.drc.violations:,} violations of {self.drc.rules} rules")
        if self.drc is not None and self.drc.not_run:
            failures.append(f"drc: {self.drc.not_run:,} of {self.drc.rules} rules not run")
        if self.lvs is not None and not self.lvs.match:
            failures.append("lvs: the extracted circuit differs from the netlist")
        if self.function is not None and self.function.inputs == 0:
            failures.append("function: no input was tried")
        if self.function is not None and self.function.exact != self.function.inputs:
            wrong = self.function.inputs - self.function.exact
            failures.append(f"function: {wrong:,} of {self.function.inputs:,} words wrong")
        return failures

    @model_validator(mode="after")
    def _check_verdict(self) -> Self:
        if self.verdict == "pass" and (failures := self.failures()):
            raise ValueError(f"verdict: 'pass' contradicts {'; '.join(failures)}; say 'fail'")
        return self

    def to_json(self) -> str:
        """The text of `report.json`: fields in the order of the schema, files sorted by name."""
        data = self.model_dump(by_alias=True)
        data["files"] = dict(sorted(self.files.items()))
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text of a `report.json`.

        Raises:
            ValueError: Not JSON, a key is missing or unknown, or a value has a wrong type; the message names the field.
        """
        return cls.model_validate_json(text)
