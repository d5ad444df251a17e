"""Design rules as data: one pydantic model per kind of rule, and the loader of a process's `rules.yml`."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_validator

from optinc_pdk.cards.errors import CardError
from optinc_pdk.yaml_io import load_yaml

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Share = Annotated[float, Field(ge=0, le=1, strict=True)]
Angle = Annotated[float, Field(gt=0, le=90, strict=True)]
Text = Annotated[str, Field(min_length=1)]
OneLayer = tuple[Text]
TwoLayers = tuple[Text, Text]
ThreeLayers = tuple[Text, Text, Text]


class _Rule(BaseModel):
    """Fields common to all rules; `source` is a key of the file's `sources`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(_[a-z0-9]+)*(\.[a-z0-9]+(_[a-z0-9]+)*)+$")]
    text: Text
    source: Text
    severity: Literal["error", "warning"]

    @property
    def limit(self) -> str:
        """The rule's value with its unit, or an empty string where the rule has none."""
        units = {"um": "um", "um2": "um^2", "deg": "deg", "ma_per_um": "mA/um", "mv": "mV"}
        for name, unit in ((f"value_{key}", unit) for key, unit in units.items()):
            if name in type(self).model_fields:
                return f"{getattr(self, name):g} {unit}"
        return ""


class _Measured(_Rule):
    """A rule that measures between facing edges.

    Edges that form an angle of `ignore_angle_deg` or more do not face each other. `angled_tolerance_um` is the
    rounding error allowed in a distance to an edge that is not parallel to an axis.
    """

    value_um: Positive
    ignore_angle_deg: Angle
    angled_tolerance_um: NotNegative


class LineRule(_Measured):
    """Least width of a layer's shapes, or least space (notches included) between them.

    `notch`: least space between facing edges of one shape.
    """

    kind: Literal["width", "space", "notch"]
    layers: OneLayer


class PairRule(_Measured):
    """Least distance between two layers' edges.

    `overlap`: width of the area that both share. `separation`: distance between shapes, which must not overlap.
    `enclosure`: distance by which the second extends beyond the first where it covers it.
    `contact_overlap`: distance by which the first extends into the second, measured along the first.
    """

    kind: Literal["overlap", "separation", "enclosure", "contact_overlap"]
    layers: TwoLayers


class BooleanRule(_Rule):
    """`exclusion`: the two layers must not overlap. `inside`: the first must lie within the second."""

    kind: Literal["exclusion", "inside"]
    layers: TwoLayers


class GuideSpaceRule(_Measured):
    """Least space between uncoupled guides.

    Bodies of couplers are the shapes that remain after erosion and dilation by `body_um`. Within `exempt_um` of a
    body, and under the second layer if one is given, guides may be closer.
    """

    kind: Literal["guide_space"]
    layers: OneLayer | TwoLayers
    body_um: Positive
    exempt_um: Positive


class BendRadiusRule(_Rule):
    """Least radius of a guide's centre line, outside or inside the second layer.

    The radius is that of the circle through three points of the guide's concave edge plus half of
    `guide_width_um`. `arms_um` are pairs: the distance between the points, and the tolerance of the radius
    measured with it; short arms detect short bends and kinks, long arms measure precisely. Edges within `exempt_um`
    of a body (see `GuideSpaceRule`) belong to a device.
    """

    kind: Literal["bend_radius"]
    layers: TwoLayers
    value_um: Positive
    inside_second: StrictBool
    guide_width_um: Positive
    arms_um: Annotated[tuple[tuple[Positive, Positive], ...], Field(min_length=1)]
    body_um: Positive
    exempt_um: Positive


class ContactsRule(_Rule):
    """A shape of the first layer touches exactly two nets of the second and is connected between them."""

    kind: Literal["contacts"]
    layers: TwoLayers


class ForeignGuideRule(_Rule):
    """Least distance from a heater to a guide (third layer) that is not its own.

    The heater is the first layer without the second, its contacts. Within the heater grown by the value plus
    `exempt_um`, its own guide is all silicon connected to the guide under it. Where that enters a body (see
    `GuideSpaceRule`), the body's other arms are exempt up to `exempt_um` from the body.
    """

    kind: Literal["foreign_guide"]
    layers: ThreeLayers
    value_um: Positive
    body_um: Positive
    exempt_um: Positive


class AreaRule(_Rule):
    """Least area of a shape."""

    kind: Literal["area"]
    layers: OneLayer
    value_um2: Positive


class AngleRule(_Rule):
    """Least inner angle at a shape's corner."""

    kind: Literal["angle"]
    layers: Annotated[tuple[Text, ...], Field(min_length=1)]
    value_deg: Angle


class PadSizeRule(_Rule):
    """Least side of a pad.

    A pad is where the first layer is wider than `recognize_um` in both directions, or where a text of the second
    layer lies on it.
    """

    kind: Literal["pad_size"]
    layers: TwoLayers
    value_um: Positive
    recognize_um: Positive


class PadPitchRule(_Rule):
    """Least distance between centres of pads; a pad is wider than `recognize_um` in both directions."""

    kind: Literal["pad_pitch"]
    layers: OneLayer
    value_um: Positive
    recognize_um: Positive


class FibrePitchRule(_Rule):
    """Least distance between centres of gratings; lines at most `merge_um` apart belong to one grating."""

    kind: Literal["fibre_pitch"]
    layers: OneLayer
    value_um: Positive
    merge_um: Positive


class EdgeRule(_Rule):
    """Every shape of another layer lies inside an outline, at least the value away from its edge."""

    kind: Literal["edge"]
    layers: OneLayer
    value_um: Positive


class OutlineRule(_Rule):
    """Outlines, one per die, are rectangles that neither overlap nor touch each other."""

    kind: Literal["outline"]
    layers: OneLayer


class DieSizeRule(_Rule):
    """Every outline has a size in `dies_um`, or is larger than these and within `reticle_um`; in either orientation."""

    kind: Literal["die_size"]
    layers: OneLayer
    dies_um: Annotated[tuple[tuple[Positive, Positive], ...], Field(min_length=1)]
    reticle_um: tuple[Positive, Positive]


class GridRule(_Rule):
    """The file's database unit is the mask grid."""

    kind: Literal["grid"]
    layers: tuple[()] = ()
    value_um: Positive


class DensityRule(_Rule):
    """Range of the share of every window that the first layer covers, `least` to `most`.

    Windows are squares of `window_um` in every outline (second layer), at steps of `step_um` from its lower left
    corner. The last row and column end at its upper and right edge; an outline smaller than a window is one window.
    """

    kind: Literal["density"]
    layers: TwoLayers
    window_um: Positive
    step_um: Positive
    least: Share
    most: Share

    @model_validator(mode="after")
    def _in_order(self) -> DensityRule:
        if self.least >= self.most:
            raise ValueError(f"least {self.least:g} is not below most {self.most:g}")
        if self.step_um > self.window_um:
            raise ValueError(f"step_um {self.step_um:g} leaves gaps between windows of {self.window_um:g} um")
        return self

    @property
    def limit(self) -> str:
        """Both shares and the size of the window."""
        return f"{self.least:g} to {self.most:g} of {self.window_um:g} um windows"


class CurrentRule(_Rule):
    """Largest current per width of metal, at the bias.

    A wire's width is measured between edges that form an angle of less than `ignore_angle_deg`.
    """

    kind: Literal["current"]
    layers: Annotated[tuple[Text, ...], Field(min_length=1)]
    value_ma_per_um: Positive
    ignore_angle_deg: Angle


class IrDropRule(_Rule):
    """Largest voltage, at the bias, between the ground end of a heater and the ground pads, along shared metal."""

    kind: Literal["ir_drop"]
    layers: OneLayer
    value_mv: Positive


class FileRule(_Rule):
    """`known_layers`: shapes lie on the process's layers only. `simple`: no polygon intersects itself."""

    kind: Literal["known_layers", "simple"]
    layers: tuple[()] = ()


Rule = (
    LineRule
    | PairRule
    | BooleanRule
    | GuideSpaceRule
    | BendRadiusRule
    | ContactsRule
    | ForeignGuideRule
    | AreaRule
    | AngleRule
    | PadSizeRule
    | PadPitchRule
    | FibrePitchRule
    | EdgeRule
    | OutlineRule
    | DieSizeRule
    | GridRule
    | DensityRule
    | CurrentRule
    | IrDropRule
    | FileRule
)


class _RuleFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Annotated[Literal[1], Field(alias="schema")]
    process: Text
    sources: Annotated[dict[Text, Text], Field(min_length=1)]
    rules: Annotated[tuple[Annotated[Rule, Field(discriminator="kind")], ...], Field(min_length=1)]


def load_rules(path: Path, layers: Mapping[str, tuple[int, int]]) -> tuple[Rule, ...]:
    """Read the rules of a process, in the file's order.

    Args:
        path: A `rules.yml`.
        layers: The process's layers, name to GDS layer and datatype.

    Raises:
        CardError: The file is not a rule file: it is unreadable, a key is duplicate, unknown or missing, a value is
            NaN, infinite, not positive or of the wrong type, an id is duplicate, or a layer or source is unknown.
    """
    data = load_yaml(path, CardError)
    try:
        file = _RuleFile.model_validate(data)
    except ValidationError as fault:
        raise CardError(f"{path}: {_first_fault(fault, data)}") from None
    duplicate = [name for name, count in Counter(rule.id for rule in file.rules).items() if count > 1]
    if duplicate:
        raise CardError(f"{path}: rule id {duplicate[0]!r} is defined more than once; rename or remove one")
    for rule in file.rules:
        for layer in rule.layers:
            if layer not in layers:
                known = ", ".join(layers)
                raise CardError(f"{path}: rule {rule.id!r}, key layers: no layer {layer!r}; take one of {known}")
        if rule.source not in file.sources:
            known = ", ".join(file.sources)
            raise CardError(f"{path}: rule {rule.id!r}, key source: no source {rule.source!r}; take one of {known}")
    return file.rules


def _first_fault(fault: ValidationError, data: Mapping[str, object]) -> str:
    """Describe the first fault: rule, key, fault and remedy."""
    first = fault.errors()[0]
    if first["type"] == "union_tag_invalid":
        return _unknown_kind(first["loc"], first["input"])
    where = list(first["loc"])
    name = ""
    rules = data.get("rules")
    if len(where) > 1 and where[0] == "rules" and isinstance(where[1], int) and isinstance(rules, list):
        raw = rules[where[1]]
        rule_id = raw.get("id") if isinstance(raw, dict) else None
        name = f"rule {rule_id!r}, " if isinstance(rule_id, str) else f"rule number {where[1] + 1}, "
        # the third entry is the kind by which pydantic chose the model
        where = where[3:] if len(where) > 3 else ["kind" if first["type"].startswith("union_tag") else "rules"]
    key = ".".join(str(part) for part in where)
    remedies = {
        "extra_forbidden": "remove the key or correct its spelling",
        "missing": "add the key",
        "union_tag_not_found": "add the key",
    }
    value = "" if first["type"] == "missing" else f" (is {str(first['input'])[:60]!r})"
    return f"{name}key {key}: {first['msg']}{value}; {remedies.get(first['type'], 'correct the value')}"


def _unknown_kind(where: tuple[int | str, ...], raw: Mapping[str, object]) -> str:
    """Describe an unknown kind of rule, with the kinds of similar spelling."""
    kinds = sorted(kind for model in get_args(Rule) for kind in get_args(model.model_fields["kind"].annotation))
    kind, rule_id = str(raw["kind"]), raw.get("id")
    name = f"rule {rule_id!r}" if isinstance(rule_id, str) else f"rule number {int(where[1]) + 1}"
    near = difflib.get_close_matches(kind, kinds, n=3)
    remedy = f"did you mean {' or '.join(near)}?" if near else f"take one of {', '.join(kinds)}"
    return f"{name}, key kind: unknown kind {kind[:60]!r}; {remedy}"
