"""Compact models: device cards to S-matrices as NumPy arrays; SAX wrappers on demand.

S is indexed [..., out, in] with ports in the card's order, and every model is reciprocal and passive. Fields
have the time dependence exp(-i ω t), so that a longer path has a larger phase.
"""

from optinc_pdk.models.coupled_guides import coupled_guides, coupled_length_um, path_difference_um
from optinc_pdk.models.measured_data import (
    MeasuredError,
    MeasuredSParameters,
    TouchstoneError,
    read_measured,
    touchstone_text,
)
from optinc_pdk.models.passives import (
    coupler,
    crossing,
    directional_coupler,
    edge_coupler,
    effective_index,
    grating_coupler,
    guide,
    guide_transmission,
    modulator,
    phase_shifter,
    photodiode,
    splitter,
    taper,
    terminator,
)
from optinc_pdk.models.registry import (
    MODELS,
    ModelError,
    device_s,
    instance_settings,
    instances_s,
    net_transmission,
    sampled_s,
)
from optinc_pdk.models.sax_models import sax_cells, sax_models, sax_netlist, sax_schematic
from optinc_pdk.validation import validate_api

__all__ = [
    "MODELS",
    "MeasuredError",
    "MeasuredSParameters",
    "ModelError",
    "TouchstoneError",
    "coupled_guides",
    "coupled_length_um",
    "coupler",
    "crossing",
    "device_s",
    "directional_coupler",
    "edge_coupler",
    "effective_index",
    "grating_coupler",
    "guide",
    "guide_transmission",
    "instance_settings",
    "instances_s",
    "modulator",
    "net_transmission",
    "path_difference_um",
    "phase_shifter",
    "photodiode",
    "read_measured",
    "sampled_s",
    "sax_cells",
    "sax_models",
    "sax_netlist",
    "sax_schematic",
    "splitter",
    "taper",
    "terminator",
    "touchstone_text",
]

validate_api(__name__)
