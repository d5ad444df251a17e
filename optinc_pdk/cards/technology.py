"""Sections of a process card: what is drawn, from layers to pitches; electronics and links; feasibility and noise."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator

from optinc_pdk.cards.quantity import (
    AnyQuantity,
    Bits,
    Chords,
    Count,
    NonNegative,
    Positive,
    Residual,
    Rows,
    SignificantBits,
    StrictModel,
    Swing,
    Text,
)
from optinc_pdk.options import Link, Receivers

# Database unit of all layouts; golden polygons are integers in this unit.
GRID_UM = 0.001


class LayerCard(StrictModel):
    """A mask layer.

    Attributes:
        gds: GDS layer and datatype.
        text: Description.
        color: Display colour, as ``#rrggbb``.
        thickness_um: Thickness of the film, for the layer stack.
        bottom_um: Height of the film's lower face, for the layer stack.
        material: Name of the material, for the layer stack.
        reach_um: Distance from silicon within which shapes of the layer change the light in it, in space if the layer
            and the core state their heights; None if they do not, or if devices and design rules cover it.
    """

    gds: tuple[StrictInt, StrictInt]
    text: Text
    color: Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")]
    thickness_um: NonNegative | None = None
    bottom_um: AnyQuantity | None = None
    material: Text | None = None
    reach_um: Positive | None = None

    @property
    def film_um(self) -> tuple[float, float] | None:
        """Heights of the film's lower and upper face; None if the card does not state them."""
        if self.bottom_um is None or self.thickness_um is None:
            return None
        return float(self.bottom_um), float(self.bottom_um) + float(self.thickness_um)


class GuideCard(StrictModel):
    """The strip waveguide ("guide").

    Attributes:
        width_um: Width.
        radius_um: Bend radius of the centreline.
        arc_segments: Smallest number of chords by which a 90° bend is drawn; see ``chords``.
        index: Effective index at ``wavelength_nm``.
        group_index: Group index at ``wavelength_nm``.
        wavelength_nm: Design wavelength.
        loss_db_per_cm: Propagation loss.
        length_match_um: Largest length difference between guides that must have equal lengths.
        index_per_k: Change of the effective index per kelvin; None if it is not known.
    """

    width_um: Positive
    radius_um: Positive
    arc_segments: Chords
    index: Positive
    group_index: Positive
    wavelength_nm: Positive
    loss_db_per_cm: NonNegative
    length_match_um: Positive
    index_per_k: AnyQuantity | None = None

    @property
    def chords(self) -> int:
        """Number of chords of a 90° bend: ``arc_segments``, or as many as keep chords within a grid step of the arc."""
        return max(int(self.arc_segments), math.ceil(math.pi / 4 / math.acos(1 - GRID_UM / float(self.radius_um))))


class GratingCard(StrictModel):
    """Gratings.

    Attributes:
        layer: Name of the mask layer of the etched lines.
    """

    layer: str = "etch70"


class MetalCard(StrictModel):
    """Routing metal.

    Attributes:
        layer: Name of the mask layer of wires and pads.
        wire_width_um: Width of a wire.
        space_um: Spacing of wires.
        sheet_ohm: Sheet resistance in Ω per square.
        current_ma_per_um: Largest current per width of a wire.
    """

    layer: str = "metal"
    wire_width_um: Positive
    space_um: Positive
    sheet_ohm: Positive
    current_ma_per_um: Positive


class ViaCard(StrictModel):
    """Square vias of a contact.

    Attributes:
        size_um: Side of a via.
        space_um: Spacing of vias.
        enclosure_um: Distance by which the metals extend beyond a via.
        ohm_um2: Resistance of a via times its area, in Ω µm²; None if vias have no resistance.
    """

    size_um: Positive
    space_um: Positive
    enclosure_um: Positive
    ohm_um2: NonNegative | None = None


class ContactCard(StrictModel):
    """Layer stack of a heater contact.

    Attributes:
        layers: Names of mask layers from the heater up: one metal, or metals with a via layer between each two.
        via: Dimensions of the vias; None for a single metal.
        heater_via: Name of the mask layer of the vias between the heater and the lowest metal; None if this metal lies
            on the heater, so that it contacts the heater wherever both are drawn.
    """

    layers: tuple[str, ...] = ("metal",)
    via: ViaCard | None = None
    heater_via: str | None = None

    @property
    def metals(self) -> tuple[str, ...]:
        """Names of the metal layers, from the heater up."""
        return self.layers[::2]

    @property
    def vias(self) -> tuple[str, ...]:
        """Names of the via layers, from the heater up."""
        return self.layers[1::2]


class PadsCard(StrictModel):
    """Connection of heaters to the electronics.

    Attributes:
        wiring: ``perimeter``: wires lead to bond pads along two edges of the die. ``flipchip``: every heater has a
            flip-chip bump beside it.
        size_um: Side of a bond pad or of the landing of a bump.
        pitch_um: Least pitch of pads or bumps.
        rows_max: Largest number of staggered rows of bond pads.
    """

    wiring: Literal["perimeter", "flipchip"]
    size_um: Positive
    pitch_um: Positive
    rows_max: Rows


class DieCard(StrictModel):
    """A die size. A process lists its die sizes in order of preference.

    Attributes:
        width_um: Width.
        height_um: Height.
        fit: Label in reports of a chip that needs this size.
        own_size: If true, the die is cut to the size of its content, and width and height are upper limits.
    """

    width_um: Positive
    height_um: Positive
    fit: Literal["fits one die", "fits one reticle"]
    own_size: StrictBool


class FloorplanCard(StrictModel):
    """Pitches and clearances of the floorplan.

    Attributes:
        mode_pitch_um: Distance between adjacent modes of a mesh.
        fibre_pitch_um: Pitch of fibre couplers.
        keepout_um: Least distance of shapes from the edge of the die.
        guide_space_um: Least spacing of uncoupled guides.
    """

    mode_pitch_um: Positive
    fibre_pitch_um: Positive
    keepout_um: Positive
    guide_space_um: Positive


Coupler = Literal["grating_coupler", "edge_coupler"]


class FibresCard(StrictModel):
    """Coupling of a chip's fibres.

    Attributes:
        coupler: Device that couples to every fibre: grating couplers within the die, or edge couplers in arrays at its
            left and right edge.
        facet_um: Distance between the tips of edge couplers and the edge of the die; needed for edge couplers.
    """

    coupler: Coupler = "grating_coupler"
    facet_um: Positive | None = None

    @model_validator(mode="after")
    def _facet_is_known(self) -> FibresCard:
        if self.coupler == "edge_coupler" and self.facet_um is None:
            raise ValueError("fibres.facet_um is missing, the distance of edge couplers from the die's edge; add it")
        return self


Holds = Literal["voltage", "power"]


class DriveCard(StrictModel):
    """Heater drive: one unipolar voltage DAC per channel.

    Attributes:
        holds: ``voltage``: a channel holds the voltage of its code at its pad. ``power``: it measures its current as
            well, and holds the power that this voltage would cause in a heater of the resistance drawn, behind its
            wires and without ground rise.
        dac_bits: Resolution.
        full_scale_v: Voltage of the highest code.
        channel_w: Electrical power of one channel, without the heater; None if it is not known.
    """

    holds: Holds = "voltage"
    dac_bits: Bits
    full_scale_v: Positive
    channel_w: Positive | None = None


class LineariserCard(StrictModel):
    """Electronics that predistort the drive of every modulator, so that its field is proportional to the signal.

    Attributes:
        residual: Largest error of the field that is left, 0 to 0.1 of full scale.
        bandwidth_hz: Bandwidth of the predistortion; None if it is not known.
        power_w: Electrical power of the predistortion of one modulator; None if it is not known.
    """

    residual: Residual
    bandwidth_hz: Positive | None = None
    power_w: Positive | None = None


class ActivationCard(StrictModel):
    """Realisation of activations, and the range of their electronics.

    Fields are relative to a launched amplitude of 1, which is the full scale of every modulator.

    Attributes:
        realisation: Whether detectors and modulators of the activations are off or on the chip.
        gain_max: Largest gain of an activation.
        offset_max: Largest absolute offset of an activation, in units of the detected difference.
        resolution_bits: Significant bits to which gains, offsets, detector balances and receiver scales are rounded.
        fan_out_max: Largest number of neurons that one pair of detectors and its amplifier drive; None for no limit.
        bandwidth_hz: Bandwidth of the electronics between an amplifier and a modulator, with the modulator's driver;
            None if it is not known.
        delay_s: Delay of the electronics between a photodiode and a modulator; None if it is not known.
        modulator_delay_s: Delay of a modulator; None if it is not known.
        driver_w: Electrical power of one modulator's driver with the electronics before it; None if it is not known.
        lineariser: Predistortion between the electronics and a modulator; None if modulators are driven directly.
        analogue_swing: Field that analogue signals reach at most, relative to full scale, so that they stay in the
            linear part of the modulator; None for almost full scale. Comparators always use full scale.
    """

    realisation: Literal["offchip", "onchip"]
    gain_max: Positive
    offset_max: Positive
    resolution_bits: SignificantBits
    fan_out_max: Count | None = None
    bandwidth_hz: Positive | None = None
    delay_s: NonNegative | None = None
    modulator_delay_s: NonNegative | None = None
    driver_w: Positive | None = None
    lineariser: LineariserCard | None = None
    analogue_swing: Swing | None = None


class LinkCard(StrictModel):
    """The link from the outputs of the network to the servers.

    Attributes:
        kind: ``direct``: the servers' photodiodes receive the light of the last layer. ``neurons``: every output ends
            in a neuron, whose modulator sends light of full scale to the servers.
        receivers: ``photodiodes``: the servers detect the power of this light. ``coherent``: they detect its field,
            with a local oscillator of the carrier whose phase is locked to it and two balanced photodiodes.
        oscillator_w: Power of the local oscillator at a coherent receiver; needed for coherent receivers.
        decision_j: Energy with which a server decides a symbol; None if it is not known.
        converter_j: Energy with which a server forms the levels of a symbol; None if it is not known.
        serdes_j: Energy of the electrical lane between a server's processor and its optical interface, for a symbol
            that is sent or received; None if it is not known.
        lock_w: Electrical power of the phase lock of a fibre; None if it is not known.
    """

    kind: Link = "neurons"
    receivers: Receivers = "photodiodes"
    oscillator_w: Positive | None = None
    decision_j: Positive | None = None
    converter_j: Positive | None = None
    serdes_j: Positive | None = None
    lock_w: Positive | None = None

    @model_validator(mode="after")
    def _oscillator_is_known(self) -> LinkCard:
        if self.receivers == "coherent" and self.oscillator_w is None:
            raise ValueError("link.oscillator_w is missing, which coherent receivers need; add it")
        return self


class BudgetCard(StrictModel):
    """Limits that decide whether a chip of a given size is feasible.

    Attributes:
        cooling_w_per_mm2: Largest heat per area that a die can dissipate.
        laser_w: Optical power launched into every guide.
        oscillator_w: Optical power launched into every fibre that leads to local oscillators of neurons; None for that
            of every guide. Where one carrier is split on the chip, it is the power of this carrier.
        margin_sigmas: Number of standard deviations of noise that a decision must tolerate.
        field_noise: Field noise, relative to full scale, that a network without known weights is assumed to tolerate.
        symbol_rate_min_bd: Lowest useful symbol rate.
        symbol_rate_max_bd: Highest symbol rate that is searched for a chip; None for no limit but the bandwidths.
        laser_efficiency: Light in a fibre over the electrical power of its laser; None if it is not known.
        temperature_control: Electrical power that holds the temperature of lasers and chip, over the power of lasers
            and heaters; None if it is not known.
    """

    cooling_w_per_mm2: Positive
    laser_w: Positive
    oscillator_w: Positive | None = None
    margin_sigmas: Positive
    field_noise: Positive
    symbol_rate_min_bd: Positive
    symbol_rate_max_bd: Positive | None = None
    laser_efficiency: Positive | None = None
    temperature_control: Positive | None = None


class AmplifierCard(StrictModel):
    """A measured amplifier behind a photodiode.

    Attributes:
        bandwidth_hz: Bandwidth at which its gain has fallen by 3 dB.
        a_per_sqrt_hz: Noise current referred to its input, one-sided.
        power_w: Electrical power, if known.
    """

    bandwidth_hz: Positive
    a_per_sqrt_hz: Positive
    power_w: Positive | None = None


class FibreCard(StrictModel):
    """Fibres between servers and chip, and from modulators on the board; all preserve polarisation.

    The light of the laser goes to a server, is modulated there, and returns. The local oscillators of the chip are of
    the same laser. ``on_chip``: they stay at the chip, and the path difference is twice the length of a fibre.
    ``delayed``: they pass a delay line as long. ``from_server``: they go to a server and back in fibres of their own.

    Attributes:
        length_m: Length of a fibre between a server and the chip.
        index: Group index of fibres.
        oscillator: Where the local oscillators of the chip come from.
        mismatch_m: Path difference that remains with delay line or fibres of their own, and that of light from
            modulators on the board.
        phase_rad: Rms phase error of a phase-locked fibre.
        extinction_db: Polarisation extinction of a fibre with its connectors: of its power, this share is in the other
            polarisation. The same share of the field comes back with a phase that drifts.
    """

    length_m: NonNegative
    index: Positive
    oscillator: Literal["on_chip", "delayed", "from_server"]
    mismatch_m: NonNegative
    phase_rad: NonNegative
    extinction_db: Positive


class NoiseCard(StrictModel):
    """Noise of the laser, of fibres and of receivers.

    Attributes:
        symbol_rate_bd: Default symbol rate of noise figures.
        laser_max_w: Largest optical power in a guide.
        intensity_db_per_hz: Relative intensity noise of the laser.
        linewidth_hz: Linewidth of the laser, full width at half maximum.
        fibres: Fibres between servers and chip, and on the board.
        chip_path_m: Path difference between light and local oscillator at a mixer, if the modulator is on the chip.
        amplifiers: Amplifiers to choose from, from the slowest to the fastest. The noise of a receiver is that of one
            of them; numbers between them are not interpolated.
    """

    symbol_rate_bd: Positive
    laser_max_w: Positive
    intensity_db_per_hz: AnyQuantity
    linewidth_hz: NonNegative
    fibres: FibreCard
    chip_path_m: NonNegative
    amplifiers: Annotated[tuple[AmplifierCard, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _amplifiers_ascend(self) -> NoiseCard:
        bandwidths = [float(each.bandwidth_hz) for each in self.amplifiers]
        for below, above in itertools.pairwise(bandwidths):
            if above <= below:
                raise ValueError(
                    f"noise.amplifiers: {above:g} Hz follows {below:g} Hz; list amplifiers by ascending bandwidth"
                )
        return self
