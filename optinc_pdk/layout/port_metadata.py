"""Metadata about ports in kfactory's format, for programs that read ports from a layout file.

kfactory stores ports as KLayout's metadata of a cell (``kfactory:ports:<number>``), and cross-sections, to which ports
refer, as metadata of the layout. Both are copied from kfactory's own cells, so that the format is that of its version.
Nothing here reads them: extraction recovers a circuit from polygons alone.
"""

from __future__ import annotations

import gdsfactory as gf
import klayout.db as kdb
from kfactory import KCell

from optinc_pdk.layout.chip_layout import ChipLayout

_OF_LAYOUT = ("kfactory:cross_section:", "kfactory:layer_enclosure:")


def add_port_metadata(layout: kdb.Layout, top: kdb.Cell, chip: ChipLayout) -> None:
    """Add the metadata of all cells of the PDK in a layout, and those of the fibres and pads of the top cell.

    The PDK of the cells is active.

    Args:
        layout: Layout with copies of cells of the PDK.
        top: Top cell.
        chip: The chip layout.
    """
    for cell in layout.each_cell():
        if cell.cell_index() != top.cell_index():
            source = gf.kcl.layout.cell(cell.name)
            if source is not None:
                _copy_metadata(gf.kcl[source.cell_index()], cell)
    drawn = gf.Component()
    try:
        for port in chip.ports:
            drawn.add_port(name=port.label, port=chip.canvas.frames.component(port.component).ports[port.port])
            drawn.ports[port.label].center = (port.x, port.y)
            drawn.ports[port.label].orientation = port.angle
        _copy_metadata(drawn, top)
        # the name of a cell that is drawn for this alone
        top.remove_meta_info("kfactory:basename")
    finally:
        drawn.delete()
    gf.kcl.set_meta_data()
    used = {value["cross_section"] for cell in layout.each_cell() for value in _port_values(cell)}
    sections = {f"{_OF_LAYOUT[0]}{name}" for name in used}
    infos = [info for info in gf.kcl.layout.each_meta_info() if info.name in sections]
    enclosures = {f"{_OF_LAYOUT[1]}{info.value['layer_enclosure']}" for info in infos}
    infos += [info for info in gf.kcl.layout.each_meta_info() if info.name in enclosures]
    for info in sorted(infos, key=lambda info: info.name):
        layout.add_meta_info(info)


def _copy_metadata(source: gf.Component | KCell, cell: kdb.Cell) -> None:
    source.set_meta_data()
    for info in source.kdb_cell.each_meta_info():
        cell.add_meta_info(info)


def _port_values(cell: kdb.Cell) -> list[dict[str, str]]:
    return [info.value for info in cell.each_meta_info() if info.name.startswith("kfactory:ports:")]
