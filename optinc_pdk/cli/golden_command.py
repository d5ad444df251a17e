"""Command ``golden``: recognition polygons of the devices of a process."""

from __future__ import annotations

from typing import Annotated

import typer

from optinc_pdk.cli.app import app, progress_counter
from optinc_pdk.cli.exit_codes import FAILED, PASSED
from optinc_pdk.cli.options import DEFAULT, ProcessName


@app.command()
def golden(
    process: ProcessName = DEFAULT,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 if a file is missing or out of date.")
    ] = False,
) -> None:
    """Write the recognition polygons of a process's devices, by which extraction recognises them.

    Draws every device that extraction recognises by its polygons, and writes golden/<device>.json into the folder of
    the process where it differs from the file that is there, or inherited. Lists the devices that are new or changed.
    """
    from optinc_pdk.cards import load_process

    card = load_process(process)

    # gdsfactory takes more than a second to import
    from optinc_pdk.cells.golden_files import golden_states, write_golden
    from optinc_pdk.cells.own_devices import UNCHANGED
    from optinc_pdk.pdk import active_pdk

    with progress_counter() as report, active_pdk(process):
        states = golden_states(card, report)
        if not check:
            write_golden(card, states)
    differing = {name: state for name, (state, _) in states.items() if state != UNCHANGED}
    for name, state in differing.items():
        print(f"{name}: {state}")
    print(f"{card.folder / 'golden'}: {len(states)} devices, {len(differing)} {'out of date' if check else 'written'}")
    raise typer.Exit(FAILED if check and differing else PASSED)
