"""Circuits: the netlist as integer arrays, the board netlist, the bias, and their files."""

from optinc_pdk.circuit._hierarchy import check_complete, flatten, open_ports
from optinc_pdk.circuit.bias import Activation, Bias, read_bias, write_bias
from optinc_pdk.circuit.board import Board, Labels, Neuron, detector_groups, label_tuple
from optinc_pdk.circuit.checked_values import NetlistError
from optinc_pdk.circuit.gdsfactory_netlists import PlacedCircuit
from optinc_pdk.circuit.netlist import UNCONNECTED, Circuit, CircuitBuilder, ComponentType, named_nets
from optinc_pdk.circuit.netlist_files import read_netlist, read_reference, write_netlist
from optinc_pdk.validation import validate_api

__all__ = [
    "UNCONNECTED",
    "Activation",
    "Bias",
    "Board",
    "Circuit",
    "CircuitBuilder",
    "ComponentType",
    "Labels",
    "NetlistError",
    "Neuron",
    "PlacedCircuit",
    "check_complete",
    "detector_groups",
    "flatten",
    "label_tuple",
    "named_nets",
    "open_ports",
    "read_bias",
    "read_netlist",
    "read_reference",
    "write_bias",
    "write_netlist",
]

validate_api(__name__)
