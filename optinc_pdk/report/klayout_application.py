"""KLayout's application: opening layouts in it, and a package with technology, DRC script and the menu entry *Verify*.

KLayout reads packages from the folder ``salt`` of its settings. Each is a folder with a description, ``grain.xml``, and
with files in ``tech``, ``drc`` and ``macros``; the package manager lists it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import webbrowser
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import cast

import klayout.db as kdb
import klayout.lay as lay

from optinc_pdk.cards import Process
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.errors import InputError
from optinc_pdk.extract.layout_reader import check_layers, read_layout
from optinc_pdk.io.file_sets import write_files
from optinc_pdk.io.reading import real_path
from optinc_pdk.io.writing import errors_of, saved_bytes, write_atomic
from optinc_pdk.signoff.drc.klayout_deck import deck_script, macro_file, ruby_literal

HEADLESS_PLATFORMS = ("offscreen", "minimal")


def klayout_application(environment: Mapping[str, str] | None = None) -> str | None:
    """Find the executable of the KLayout application; None if it is not installed or there is no display.

    ``environment`` are environment variables; None for those of this process.
    """
    variables = os.environ if environment is None else environment
    return shutil.which("klayout", path=variables.get("PATH")) if _has_display(variables) else None


def open_page(page: Path, environment: Mapping[str, str] | None = None) -> bool:
    """Open an HTML page in the browser of the display; returns whether there is a display and a browser that started.

    ``environment`` are environment variables; None for those of this process.
    """
    # without a display, a browser of the terminal would be started, which cannot show layouts
    return _has_display(os.environ if environment is None else environment) and webbrowser.open(
        real_path(page).as_uri()
    )


def _has_display(environment: Mapping[str, str]) -> bool:
    display = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    return bool(display) and environment.get("QT_QPA_PLATFORM") not in HEADLESS_PLATFORMS


def layer_properties(process: Process) -> bytes:
    """Return the layers of a process with names and colours as a KLayout layer properties file (.lyp)."""
    view = lay.LayoutView()
    for name, layer in process.layers.items():
        node = lay.LayerPropertiesNode()
        node.source = f"{layer.gds[0]}/{layer.gds[1]}@1"
        node.name = f"{name}: {layer.text}"
        node.fill_color = node.frame_color = int(layer.color.removeprefix("#"), 16)
        view.insert_layer(view.end_layers(), node)
    return saved_bytes(view.save_layer_props)


def open_klayout(application: str, gds: Path, process: Process, directory: Path) -> Path:
    """Open a layout, GDS2 or OASIS, in the KLayout application and wait until the application is closed.

    The layer properties file, .lyp, is written into ``directory``, and its path returned.

    Raises:
        InputError: The layout cannot be read or was drawn for another process, or the application fails.
    """
    check_layers(read_layout(gds)[0], process.gds_layers, gds)
    properties = directory / f"{gds.stem}.lyp"
    write_atomic(properties, layer_properties(process))
    done = subprocess.run([application, "-l", str(properties), str(gds)], check=False)
    if done.returncode:
        raise InputError(f"{application} ended with {done.returncode} on {gds}; give --png to write pictures instead")
    return properties


MENU = 'optinc_menu>help_menu("Optinc").end'
"""Place of the entry among KLayout's menus: a menu before Help, which the first entry creates."""
DESCRIPTION = "grain.xml"
"""File by which KLayout recognises the folder of a package."""


def klayout_home(given: Path | None, environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the settings of KLayout's application.

    It is the given one, or else that of ``KLAYOUT_HOME``, or else ``~/.klayout``, as for the application.
    ``environment`` are environment variables; None for those of this process.

    Raises:
        InputError: There is no such folder, or it cannot be written.
    """
    variables = os.environ if environment is None else environment
    folder = given or Path(variables.get("KLAYOUT_HOME") or Path(variables.get("HOME", "~"), ".klayout").expanduser())
    if not folder.is_dir():
        fact = "is no folder of KLayout's settings" if folder.exists() else "the folder does not exist"
        raise InputError(
            f"{folder}: {fact}; start KLayout once, which creates it, or give the folder with --klayout-home"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: is not writable; change its permissions, or give another with --klayout-home")
    return folder


def package_name(process: Process) -> str:
    """Return the name of the package and of the technology of a process."""
    return f"optinc_{process.name}"


def install_package(process: Process, home: Path) -> tuple[Path, ...]:
    """Write the package of a process, in place of an earlier one; returns the paths of the files.

    Raises:
        InputError: A file cannot be replaced.
        OSError: A file cannot be written; ``filename`` is its path.
    """
    name, folder = package_name(process), _folder(process, home)
    files = {
        f"tech/{name}.lyp": layer_properties(process),
        f"tech/{name}.lyt": technology(process).to_xml().encode(),
        f"drc/{name}.lydrc": deck_script(process.name, process.rules, process.gds_layers),
        f"macros/{name}_verify.lym": verify_macro(process),
        DESCRIPTION: _description(process),
    }
    paths = {folder / file: content for file, content in files.items()}
    write_files(paths)
    return tuple(paths)


def remove_package(process: Process, home: Path) -> Path:
    """Delete the package of a process; returns the folder that was deleted.

    Raises:
        InputError: The package is not installed.
        OSError: The folder cannot be deleted; ``filename`` is its path.
    """
    folder = _folder(process, home)
    if not (folder / DESCRIPTION).is_file():
        raise InputError(f"{folder}: no package is installed there; see --process and --klayout-home")
    with errors_of(folder), tempfile.TemporaryDirectory(prefix=".optinc-", dir=folder.parent) as hidden:
        # renamed first, so that KLayout never reads a part of the package
        shutil.rmtree(folder.rename(Path(hidden, folder.name)))
    return folder


def technology(process: Process) -> kdb.Technology:
    """Return the process as a KLayout technology: layers, and the connections of its metals for the net tracer."""
    found = kdb.Technology()
    found.name, found.group, found.description = package_name(process), "optinc", process.title
    # beside the technology's file
    found.layer_properties_file = f"{package_name(process)}.lyp"
    found.add_other_layers = True
    metals = kdb.NetTracerConnectivity()
    metals.name = "metals"
    contact = process.contact
    if not contact.vias:
        metals.connection(contact.metals[0], contact.metals[0])
    for (lower, upper), via in zip(itertools.pairwise(contact.metals), contact.vias, strict=True):
        metals.connection(lower, via, upper)
    for layer in contact.layers:
        metals.symbol(layer, "{}/{}".format(*process.layers[layer].gds))
    # KLayout's annotations state the base class
    cast(kdb.NetTracerTechnologyComponent, found.component("connectivity")).add(metals)
    return found


def verify_macro(process: Process) -> bytes:
    """Return the menu entry that runs ``optinc verify``, with the Python of this process, on the layout shown."""
    bundled = process.folders[0].parent == components_folder()
    settings = {"python": sys.executable, "process": process.name if bundled else str(real_path(process.folders[0]))}
    script = Path(__file__).with_name("klayout_verify.rb").read_text(encoding="utf-8")
    fields = {
        "description": f"Verify ({process.name})",
        "category": "macros",
        "group-name": "optinc",
        "menu-path": MENU,
        "interpreter": "ruby",
    }
    return macro_file(fields, f"{script}OptincVerify::new({ruby_literal(settings)}).run\n")


def _folder(process: Process, home: Path) -> Path:
    return home / "salt" / package_name(process)


def _description(process: Process) -> bytes:
    grain = ElementTree.Element("salt-grain")
    for key, value in {
        "name": package_name(process),
        "version": version("optinc-pdk"),
        "title": f"optinc: {process.title}",
        "doc": "Technology, DRC script and verification, written by `optinc process klayout install`.",
    }.items():
        ElementTree.SubElement(grain, key).text = value
    ElementTree.indent(grain, " ")
    return bytes(ElementTree.tostring(grain, encoding="utf-8", xml_declaration=True)) + b"\n"
