"""Design rules as data: one pydantic model per kind of rule, and the loader of a process's `rules.yml`."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_validator

from optinc_pdk.cards.quantity import CardError, describe_fault
from optinc_pdk.cards.quantity import Text as Printable
from optinc_pdk.io.reading import CARD
from optinc_pdk.io.yaml_files import load_yaml

Positive = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False, strict=True)]
# From the grid of layouts, below which a rule would check nothing, to 1 m, where 32-bit coordinates in nm end.
Length = Annotated[float, Field(ge=0.001, le=1e6, allow_inf_nan=False, strict=True)]
Tolerance = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
Share = Annotated[float, Field(ge=0, le=1, strict=True)]
Angle = Annotated[float, Field(gt=0, le=90, strict=True)]
Text = Annotated[Printable, Field(min_length=1)]
OneLayer = tuple[Text]
TwoLayers = tuple[Text, Text]
ThreeLayers = tuple[Text, Text, Text]
# Polygons as points in nm.
Polygons = tuple[tuple[tuple[int, int], ...], ...]


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

    value_um: Length
    ignore_angle_deg: Angle
    angled_tolerance_um: Tolerance


class LineRule(_Measured):
    """Minimum width, space or notch of the shapes of one layer.

    Kinds: `width` is the width of a shape; `space` is the distance between facing edges of different shapes or of one
    shape; `notch` is the distance between facing edges of one shape.
    """

    kind: Literal["width", "space", "notch"]
    layers: OneLayer


class PairRule(_Measured):
    """Minimum distance or overlap between the shapes of two layers.

    Kinds: `overlap` is the width of the common area. `separation` is the distance between shapes of the two layers,
    which must not overlap. `enclosure` is the distance by which the second layer extends beyond the first where it
    covers it. `contact_overlap` is the distance by which the first layer extends into the second, measured along the
    first.
    """

    kind: Literal["overlap", "separation", "enclosure", "contact_overlap"]
    layers: TwoLayers


class BooleanRule(_Rule):
    """Rule on the common area of two layers.

    Kinds: `exclusion`: the layers must not overlap. `inside`: the first layer must lie within the second.
    """

    kind: Literal["exclusion", "inside"]
    layers: TwoLayers


class GuideSpaceRule(_Measured):
    """Minimum space between uncoupled guides.

    A body, such as that of a coupler, is a shape that remains after erosion and dilation by `body_um`. The rule does
    not apply within `exempt_um` of a body, or as far as arms of the process's bend radius need to part; nor under valid
    marks on the second layer if one is given. A mark is valid if it is the bounding box of one of `devices` and covers
    exactly the silicon of this device, or, with `coupled_width_um`, if it is a rectangle whose silicon consists of two
    guides of this width that cross its border at right angles, each twice, and no other silicon touches it.

    Without a second layer, the rule does not apply within the bounding boxes of `devices` either, wherever such a box
    contains exactly the device's silicon: cells of other PDKs carry no marks. The device has an edge inside the box.

    `silicon_nm` is the silicon of each device, which the loader reads from the golden files: device, polygon, point,
    coordinate. A device without a golden file has none, so no mark of it is valid.
    """

    kind: Literal["guide_space"]
    layers: OneLayer | TwoLayers
    body_um: Length
    exempt_um: Length
    devices: tuple[Text, ...] = ()
    coupled_width_um: Length | None = None
    silicon_nm: tuple[Polygons, ...] = ()

    @model_validator(mode="after")
    def _marked_devices(self) -> GuideSpaceRule:
        if len(self.layers) > 1 and not self.devices and self.coupled_width_um is None:
            raise ValueError(
                "the second layer and 'devices' belong together, or the layer and 'coupled_width_um': the layer marks "
                "these devices or guides; give both"
            )
        if len(self.layers) == 1 and self.coupled_width_um is not None:
            raise ValueError("the second layer marks guides of 'coupled_width_um'; add the layer")
        return self


class BendRadiusRule(_Rule):
    """Minimum bend radius of a guide's centreline, inside (`inside_second`) or outside the second layer.

    The measured radius is that of the circle through three points of the guide's concave edge, plus half of
    `guide_width_um`. Each pair in `arms_um` is a distance between these points and the tolerance of a radius that is
    measured at this distance, or that which rounding to the grid makes of it, if this is larger. Short distances detect
    short bends and kinks, long distances measure precisely. Edges within `exempt_um` of a body (see `GuideSpaceRule`)
    are not measured.
    """

    kind: Literal["bend_radius"]
    layers: TwoLayers
    value_um: Length
    inside_second: StrictBool
    guide_width_um: Length
    arms_um: Annotated[tuple[tuple[Length, Length], ...], Field(min_length=1)]
    body_um: Length
    exempt_um: Length


class ContactsRule(_Rule):
    """Every shape of the first layer touches exactly two nets of the second layer and conducts between them."""

    kind: Literal["contacts"]
    layers: TwoLayers


class ForeignGuideRule(_Rule):
    """Minimum distance from a heater to guides (third layer) other than the one it heats.

    The heater is the first layer without the second layer, its contacts. All silicon connected to the guide under the
    heater counts as its own guide, within the heater enlarged by the value plus `exempt_um`. Where the own guide enters
    a body (see `GuideSpaceRule`), the other arms of the body are exempt up to `exempt_um` from the body.
    """

    kind: Literal["foreign_guide"]
    layers: ThreeLayers
    value_um: Length
    body_um: Length
    exempt_um: Length


class AreaRule(_Rule):
    """Minimum area of a shape."""

    kind: Literal["area"]
    layers: OneLayer
    value_um2: Positive


class AngleRule(_Rule):
    """Minimum interior angle at a corner of a shape."""

    kind: Literal["angle"]
    layers: Annotated[tuple[Text, ...], Field(min_length=1)]
    value_deg: Angle


class PadSizeRule(_Rule):
    """Minimum side length of a pad.

    A pad is a shape of the first layer that is wider than `recognize_um` in both directions, or that carries a text of
    the second layer. Its opposite sides are at least `value_um` apart, and a square of this side lies within it,
    parallel to the axes or to a side of the pad that is at least half as long.
    """

    kind: Literal["pad_size"]
    layers: TwoLayers
    value_um: Length
    recognize_um: Length


class PadPitchRule(_Rule):
    """Minimum distance between the centres of pads, the shapes wider than `recognize_um` in both directions.

    The centre is that of the box around a pad.
    """

    kind: Literal["pad_pitch"]
    layers: OneLayer
    value_um: Length
    recognize_um: Length


class FibrePitchRule(_Rule):
    """Minimum distance between the centres of gratings; lines at most `merge_um` apart form one grating.

    The centre is that of the box around a grating's lines.
    """

    kind: Literal["fibre_pitch"]
    layers: OneLayer
    value_um: Length
    merge_um: Length


class EdgeRule(_Rule):
    """Every shape on other layers lies inside an outline (the layer), at least `value_um` from the outline's edge.

    Shapes of the second layer, if one is given, are not checked: a rule of kind `facet` does.
    """

    kind: Literal["edge"]
    layers: OneLayer | TwoLayers
    value_um: Length


class FacetRule(_Rule):
    """Silicon (the first layer) nearer than `keepout_um` to the edge of an outline (the second) ends at a facet.

    It comes straight from the inside, is at most `guide_width_um` wide, and its tip is from `value_um` to `most_um`
    away from the edge. Centres of tips are at least `pitch_um` apart.
    """

    kind: Literal["facet"]
    layers: TwoLayers
    value_um: Length
    most_um: Length
    keepout_um: Length
    guide_width_um: Length
    pitch_um: Length

    @model_validator(mode="after")
    def _in_order(self) -> FacetRule:
        if not self.value_um <= self.most_um < self.keepout_um:
            raise ValueError(
                f"value_um {self.value_um:g}, most_um {self.most_um:g} and keepout_um {self.keepout_um:g} do not ascend"
            )
        return self

    @property
    def limit(self) -> str:
        """Text with the range of the distance."""
        return f"{self.value_um:g} to {self.most_um:g} um"


class OutlineRule(_Rule):
    """Every outline is a rectangle, one per die; outlines do not overlap or touch each other."""

    kind: Literal["outline"]
    layers: OneLayer


class DieSizeRule(_Rule):
    """Every outline has a size in `dies_um`, or is longer or wider than these and fits `reticle_um`, either way round.

    Without `reticle_um`, no other size is allowed: runs that several designs share have no larger design area.
    """

    kind: Literal["die_size"]
    layers: OneLayer
    dies_um: Annotated[tuple[tuple[Length, Length], ...], Field(min_length=1)]
    reticle_um: tuple[Length, Length] | None = None


class GridRule(_Rule):
    """The database unit of the layout file equals the mask grid, `value_um`."""

    kind: Literal["grid"]
    layers: tuple[()] = ()
    value_um: Length


class DensityRule(_Rule):
    """Range of the fraction of each window that the first layer covers, `least` to `most`.

    Windows are squares of side `window_um` within each outline (second layer), at steps of `step_um` from its lower
    left corner. The last column and row end at the right and upper edge of the outline. An outline that is smaller than
    a window is one window.
    """

    kind: Literal["density"]
    layers: TwoLayers
    window_um: Length
    step_um: Length
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
        """Text with the range of the fraction and the size of the windows."""
        return f"{self.least:g} to {self.most:g} of {self.window_um:g} um windows"


class CurrentRule(_Rule):
    """Maximum current per width of a wire, for the heater currents of the bias.

    The width is measured between edges that form an angle of less than `ignore_angle_deg`.
    """

    kind: Literal["current"]
    layers: Annotated[tuple[Text, ...], Field(min_length=1)]
    value_ma_per_um: Length
    ignore_angle_deg: Angle


class IrDropRule(_Rule):
    """Maximum voltage drop along shared metal from the ground end of a heater to the ground pads, for the bias."""

    kind: Literal["ir_drop"]
    layers: OneLayer
    value_mv: Positive


class FileRule(_Rule):
    """Rule on a layout file as a whole.

    Kinds: `known_layers`: all shapes are on layers of the process; texts may be on any. `simple`: no polygon intersects
    itself.
    """

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
    | FacetRule
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
    """Read the design rules of a process from its `rules.yml`, given GDS layer and datatype of each mask layer by name.

    Raises:
        CardError: The file is unreadable, a key is duplicate, unknown or missing, a value is NaN, infinite, not
            positive or of the wrong type, an id is duplicate, or a layer or source is unknown.
    """
    data = load_yaml(path, CARD, CardError)
    if type(data.get("schema", 1)) is not int:  # True equals 1
        raise CardError(f"{path}: key schema must be 1; correct it")
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
    return name + describe_fault(first, key)


def _unknown_kind(where: tuple[int | str, ...], raw: Mapping[str, object]) -> str:
    """Describe an unknown kind of rule, with the kinds of similar spelling."""
    kinds = sorted(kind for model in get_args(Rule) for kind in get_args(model.model_fields["kind"].annotation))
    kind, rule_id = str(raw["kind"]), raw.get("id")
    name = f"rule {rule_id!r}" if isinstance(rule_id, str) else f"rule number {int(where[1]) + 1}"
    near = difflib.get_close_matches(kind, kinds, n=3)
    remedy = f"did you mean {' or '.join(near)}?" if near else f"take one of {', '.join(kinds)}"
    return f"{name}, key kind: unknown kind {kind[:60]!r}; {remedy}"
