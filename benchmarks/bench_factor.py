"""Decomposition of unitaries and propagation through meshes: this package and its peers, on one thread.

    python benchmarks/bench_factor.py

Every peer decomposes the same Haar unitaries. scipy's QR factorisation and numpy's matrix product of the same complex
matrices are references. Times are medians of interleaved runs, so that other load affects all alike. Peers decompose
up to 128 modes: their time grows as N^4, so that 256 would take minutes.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import scipy.linalg
import scipy.stats
import typer
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from optinc_pdk.arrays import Complexes
from optinc_pdk.factor import rectangular, triangular

RUNS = 7
PEER_MODES = 128
PEERS = {
    "phaseshift": ("phaseshift", "mzi_decomposition"),
    "interferometer": ("interferometer", "square_decomposition"),
}


def numpy_slices(unitary: Complexes) -> Complexes:
    """The same nulling with numpy alone: a 2 x 2 product on two rows or columns per MZI.

    The baseline for the compiled kernel.

    Returns:
        The remaining diagonal matrix; the phases are not computed.
    """
    remainder = unitary.copy()
    modes = len(remainder)
    for diagonal in range(1, modes):
        for step in range(diagonal):
            if diagonal % 2:
                row, upper = modes - 1 - step, diagonal - 1 - step
                x, y = remainder[row, upper : upper + 2]
                pair = remainder[: row + 1, upper : upper + 2]
                norm = np.hypot(abs(x), abs(y))
                pair[...] = pair @ (np.array([[y, x.conjugate()], [-x, y.conjugate()]]) / norm)
            else:
                upper = modes - 1 - diagonal + step
                y, x = remainder[upper : upper + 2, step]
                pair = remainder[upper : upper + 2, step:]
                norm = np.hypot(abs(x), abs(y))
                pair[...] = (np.array([[y.conjugate(), x.conjugate()], [-x, y]]) / norm) @ pair
    return remainder


def seconds(call: Callable[[], Any]) -> float:
    """Wall-clock time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def medians(calls: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """Median seconds of each call after a first run, the calls interleaved; slow calls run once."""
    first = {name: seconds(call) for name, call in calls.items()}
    rounds = [{name: seconds(call) for name, call in calls.items() if first[name] < 1.0} for _ in range(runs)]
    return {
        name: float(np.median([times[name] for times in rounds])) if first[name] < 1.0 else first[name]
        for name in calls
    }


def load_peers() -> dict[str, Callable[[Complexes], Any] | None]:
    """The peers' decompositions; None for one that is not installed."""
    loaded: dict[str, Callable[[Complexes], Any] | None] = {}
    for name, (module, function) in PEERS.items():
        try:
            loaded[name] = getattr(importlib.import_module(module), function)
        except ImportError:
            loaded[name] = None
    return loaded


def bench_decompositions(sizes: list[int], runs: int) -> Table:
    """Seconds per decomposition, and ratios to QR and to this package."""
    table = Table("N", "what", "seconds", "x QR", "x rectangular", title="Decomposing one Haar unitary")
    peers = load_peers()
    for size in sizes:
        unitary = scipy.stats.unitary_group(size, seed=size).rvs()
        calls: dict[str, Callable[[], Any]] = {
            "rectangular": lambda U=unitary: rectangular(U),
            "triangular": lambda U=unitary: triangular(U),
            "scipy.linalg.qr": lambda U=unitary: scipy.linalg.qr(U),
        }
        calls["numpy slices"] = lambda U=unitary: numpy_slices(U)
        for name, peer in peers.items():
            if peer and size <= PEER_MODES:
                calls[name] = lambda U=unitary, peer=peer: peer(U)
        result = medians(calls, runs)
        ours, scale = result["rectangular"], result["scipy.linalg.qr"]
        for name in ("rectangular", "triangular", "scipy.linalg.qr", "numpy slices", *peers):
            if name in result:
                elapsed = result[name]
                table.add_row(str(size), name, f"{elapsed:.3g}", f"{elapsed / scale:.2f}", f"{elapsed / ours:.3g}")
            else:
                absent = f"left out above N = {PEER_MODES}" if peers[name] else "not installed"
                table.add_row(str(size), name, absent, "", "")
        table.add_section()
    return table


def bench_light(sizes: list[int], vectors: int, runs: int) -> Table:
    """Seconds for a mesh's matrix and for propagation of fields, and ratios to dense products of the same sizes."""
    table = Table("N", "what", "mesh, s", "dense, s", "ratio", title="Propagation through a mesh")
    for size in sizes:
        unitary = scipy.stats.unitary_group(size, seed=size).rvs()
        mesh = rectangular(unitary)
        rng = np.random.default_rng(size)
        fields = rng.normal(size=(size, vectors)) + 1j * rng.normal(size=(size, vectors))
        calls: dict[str, Callable[[], Any]] = {
            "matrix": mesh.matrix,
            "product": lambda U=unitary: U @ U,
            "apply": lambda mesh=mesh, fields=fields: mesh.apply(fields),
            "applied": lambda U=unitary, fields=fields: U @ fields,
        }
        mesh.matrix()
        result = medians(calls, runs)
        for what, ours, dense in (
            ("matrix()", "matrix", "product"),
            (f"apply to {vectors} vectors", "apply", "applied"),
        ):
            ratio = result[ours] / result[dense]
            table.add_row(str(size), what, f"{result[ours]:.3g}", f"{result[dense]:.3g}", f"{ratio:.2f}")
    return table


def bench_batch(runs: int, batch: int = 1000, size: int = 8) -> Table:
    """Seconds for decomposing many small unitaries, one by one and as one batch."""
    table = Table("what", "seconds", title=f"{batch} of N = {size}")
    stack = scipy.stats.unitary_group(size, seed=0).rvs(batch)
    rectangular(stack)
    calls: dict[str, Callable[[], Any]] = {
        "one batch": lambda: rectangular(stack),
        "one by one": lambda: [rectangular(unitary) for unitary in stack],
    }
    for name, elapsed in medians(calls, runs).items():
        table.add_row(name, f"{elapsed:.3g}")
    return table


def parse_sizes(sizes: str) -> list[int]:
    """Parses the numbers of modes.

    Raises:
        typer.BadParameter: sizes are not whole numbers of at least 2, separated by commas.
    """
    try:
        modes = [int(size) for size in sizes.split(",")]
    except ValueError:
        modes = []
    if not modes or min(modes) < 2:
        raise typer.BadParameter(f"sizes is {sizes!r}; give whole numbers of at least 2, separated by commas")
    return modes


def main(
    sizes: Annotated[str, typer.Option(help="Modes, separated by commas.")] = "16,64,128,256,512,1024",
    vectors: Annotated[int, typer.Option(min=1, help="Fields propagated through each mesh.")] = 10_000,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each call; the median counts.")] = RUNS,
) -> None:
    """Prints the tables."""
    modes = parse_sizes(sizes)
    console = Console()
    with threadpool_limits(1):
        first = seconds(lambda: rectangular(np.eye(2)).matrix())
        console.print(f"first call, numba imported and kernels loaded or compiled: {first:.2f} s")
        console.print(bench_decompositions(modes, runs))
        console.print(bench_light([size for size in modes if size <= 512], vectors, runs))
        console.print(bench_batch(runs))


if __name__ == "__main__":
    typer.run(main)
