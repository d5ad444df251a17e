"""From a network or a matrix to a chip that is signed off: one stage after another.

==============  ==============================================================  ===================
stage           does                                                            in
==============  ==============================================================  ===================
read            network or matrix, process, names of the files                  `inputs`
factor          matrices to phases of meshes                                    `inputs`, `tasks`
assemble        phases to a circuit and its board                               `building`, `tasks`
layout          circuit to dies, wires and pads; GDS and netlist                `building`
drc             design rules of the written file                                `sign_off`
extract         polygons to a circuit                                           `sign_off`
lvs             extracted circuit against netlist                               `sign_off`
program         extracted circuit to codes of the drives                        `sign_off`, `tasks`
currents        electrical rules at these codes                                 `sign_off`
function        what the driven chip computes, for every input                  `sign_off`, `tasks`
rate            symbol rate at which words are still read                       `tasks`
pinout          pads, bumps and fibres                                          `sign_off`
report          numbers, pictures, page                                         `sign_off`, `outputs`
==============  ==============================================================  ===================

`building` has the function `build`, `reprogramming` programs a chip again, and `cascade` builds two levels of chips.
What differs between words, networks and matrices is a task of `tasks`.
"""
