"""Tree of seven splitters from one grating coupler to an array of eight, routed as a bundle."""

from pathlib import Path

import gdsfactory as gf

import optinc_pdk as op


def circuit() -> gf.Component:
    """Draw the circuit."""
    c = gf.Component("splitter_tree_1x8")
    cell = gf.components.splitter_tree("mmi1x2", noutputs=8, spacing=(110.0, 60.0), bend_s=None, cross_section="strip")
    tree = c.add_ref(cell, name="tree")
    root = c.add_ref(gf.get_component("grating_coupler"), name="in")
    root.connect("o1", tree["o1_0_0"])
    c.add_port("in", port=root["o2"])
    leaves = sorted((port for port in tree.ports if port.name != "o1_0_0"), key=lambda port: port.center[1])
    outputs, couplers = [], []
    for i, port in enumerate(leaves):
        # both outputs of a splitter separate before they run side by side
        apart = c << gf.get_component("bend_s", size=(30.0, 12.0 if i % 2 else -12.0))
        apart.connect("o1", port)
        outputs.append(apart["o2"])
        coupler = c.add_ref(gf.get_component("grating_coupler"), name=f"out{i}")
        coupler.move((port.center[0] + 800.0, 127.0 * (i - 3.5)))
        couplers.append(coupler["o1"])
        c.add_port(f"out{i}", port=coupler["o2"])
    gf.routing.route_bundle(c, outputs, couplers, cross_section="strip", separation=10.0)
    return c


if __name__ == "__main__":
    op.PDK.activate()
    drawn = circuit()
    drawn.write_gds("splitter_tree.gds")
    drawn.write_netlist(drawn.get_netlist(recursive=True), Path("splitter_tree.pic.yml"))
