"""Highest symbol rate of a network's chip, estimated before it is built.

The circuit of the chip is assembled and its dies are planned, so that it has the meshes, trees, couplers and local
oscillators of the chip. It is then programmed, and the estimate of :mod:`optinc_pdk.studies.error_estimate` is made
with its S-parameters. Guides have no length: their loss is left out, and rates are higher than those of the extracted
chip. With ``extracted``, the layout is drawn, written to a temporary file and extracted, as in a build.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from optinc_pdk.assemble import draft_circuit
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, lay_out, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, factorise, linked_network
from optinc_pdk.signoff.electrical.wiring import wiring_of
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import program, scattering
from optinc_pdk.studies.error_estimate import WORDS, error_margins
from optinc_pdk.studies.highest_rates import CHOICE_WORDS, ERROR_RATE, highest_rate

NAME = "chip"
"""Name of the circuit that is rated."""


def chip_rate(onn: AveragingNetwork, process: Process, extracted: bool = False) -> float | None:
    """Estimate the highest symbol rate of a network's chip at a word-error rate of ``ERROR_RATE``.

    Args:
        onn: The network, as given to a build; the process's link may add output neurons.
        process: Process of the cards.
        extracted: Whether the chip is laid out and extracted, with the length of its guides and all words of an
            estimate; otherwise the assembled circuit is rated with fewer words.

    Returns:
        Symbols per second; None if no useful rate is acceptable.

    Raises:
        InputError: No chip can be built from the network, its programming fails, or the process has no noise or no
            budget section.
    """
    linked = linked_network(onn, process.link.kind == "neurons")
    factors = factorise(linked)
    circuit, chip = lay_out(draft_circuit(linked, process, NAME), process)
    board = circuit.board
    if board is None:
        raise ValueError("an assembled circuit has a board")
    ground = None
    if extracted:
        circuit, ground = _extracted(chip, process)
    bias = program(circuit, board, linked, process, ground=ground, factors=factors).bias
    s = scattering(circuit, bias, float(process.guide.wavelength_nm), process, ground=ground)
    margins = error_margins(s, function_inputs(linked.task), board, bias, WORDS if extracted else CHOICE_WORDS)
    return highest_rate(margins, process, ERROR_RATE)


def _extracted(chip: ChipLayout, process: Process) -> tuple[Circuit, SharedGround]:
    """Circuit and ground rise of a chip as extracted from its layout."""
    with tempfile.TemporaryDirectory() as folder:
        gds = Path(folder) / f"{NAME}.gds"
        write_gds(to_layout(chip, process, NAME), gds)
        extraction = extract(gds, process)
    return extraction.circuit, wiring_of(extraction, process).common_ground
