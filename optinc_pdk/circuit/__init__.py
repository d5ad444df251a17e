"""Circuits: the netlist as integer arrays, the board, the bias, and their files."""

from optinc_pdk.circuit.bias import Activation, Bias, read_bias, write_bias
from optinc_pdk.circuit.board import Board, Labels, Neuron, labels
from optinc_pdk.circuit.errors import NetlistError
from optinc_pdk.circuit.files import read_netlist, write_netlist
from optinc_pdk.circuit.hierarchy import check_complete, flatten
from optinc_pdk.circuit.netlist import Builder, Circuit, Kind, named_nets
from optinc_pdk.circuit.nets import UNCONNECTED

__all__ = [
    "UNCONNECTED",
    "Activation",
    "Bias",
    "Board",
    "Builder",
    "Circuit",
    "Kind",
    "Labels",
    "NetlistError",
    "Neuron",
    "check_complete",
    "flatten",
    "labels",
    "named_nets",
    "read_bias",
    "read_netlist",
    "write_bias",
    "write_netlist",
]
