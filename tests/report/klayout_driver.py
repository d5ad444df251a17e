"""Script for KLayout's application: chooses Verify in the menu, and writes what it shows to a file.

Variables set with -rd: layout, technology, process (that of the entry), missing (the process of an entry whose
Python is missing), answers (the file to write).
"""

import json

import pya

BOXES = []


def answer():
    """Note and close the message box that is open."""
    box = pya.QApplication.activeModalWidget()
    if hasattr(box, "standardButtons"):
        BOXES.append([box.windowTitle, box.text])
        box.accept()


def verify(process):
    """Choose an entry; return the boxes that it shows, and the marker databases by name."""
    BOXES.clear()
    pya.Application.instance().process_events()
    menu = pya.MainWindow.instance().menu()
    (entry,) = [one for one in menu.items("optinc_menu") if menu.action(one).title == f"Verify ({process})"]
    menu.action(entry).trigger()
    view = pya.LayoutView.current()
    databases = [view.rdb(number) for number in range(view.num_rdbs())] if view else []
    return {"boxes": list(BOXES), "databases": {one.name(): one.num_items() for one in databases}}


def run(layout, technology, process, missing):
    """Verify no layout, a file, its layout with a change, with a broken netlist, and with a Python that is missing."""
    window = pya.MainWindow.instance()
    results = {"no layout": verify(process)}
    window.load_layout(layout, technology, 0)
    shown = window.current_view().active_cellview()
    results["technology"] = shown.technology
    results["layers"] = [node.name for node in window.current_view().each_layer()]
    menu = window.menu()
    results["scripts"] = [menu.action(one).title for one in menu.items("tools_menu.drc")]
    results["file"] = verify(process)
    results["browsers"] = [
        one.windowTitle for one in pya.QApplication.topLevelWidgets() if one.isVisible() and one is not window
    ]
    cell = shown.layout().top_cell()
    for x in (-500, -400):
        cell.shapes(shown.layout().layer(3, 0)).insert(pya.DBox(x, -600, x + 20, -599.95))
    results["changed"] = verify(process)
    with open(layout[: -len(".gds")] + ".pic.yml", "w") as netlist:
        netlist.write("instances: [")
    results["broken netlist"] = verify(process)
    results["missing"] = verify(missing)
    return results


timer = pya.QTimer()
timer.timeout = answer
timer.start(100)
try:
    found = run(layout, technology, process, missing)  # noqa: F821 - set by the command line
except Exception as fault:
    found = {"error": repr(fault)}
with open(answers, "w") as file:  # noqa: F821 - set by the command line
    json.dump(found, file)
# without questions about changes
pya.Application.instance().exit(0)
