"""Layout versus schematic (LVS): comparison of an extracted circuit with its netlist."""
