"""The netlist as integer arrays, its files, the bias and the board."""

from optinc_pdk.circuit.bias import Activation, Bias, read_bias, write_bias
from optinc_pdk.circuit.board import Board, Labels, Neuron, labels
from optinc_pdk.circuit.files import read_netlist, write_netlist
from optinc_pdk.circuit.netlist import UNCONNECTED, Builder, Circuit, Kind, NetlistError, flatten, named_nets

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
    "flatten",
    "labels",
    "named_nets",
    "read_bias",
    "read_netlist",
    "write_bias",
    "write_netlist",
]
