"""Builds with different processes in several threads: each is byte-identical to the same build on its own.

``python tests/faults/test_threads.py 50`` runs that many rounds of complete builds.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import gdsfactory as gf
import klayout.db as kdb
import pytest

import optinc_pdk as op
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.cells import CELLS
from optinc_pdk.gc_control import gc_paused
from optinc_pdk.layout import lay_out_network, to_layout
from optinc_pdk.networks import AveragingNetwork, carry_chain
from optinc_pdk.pdk import active_pdk, get_pdk
from optinc_pdk.tech import LAYOUT_LOCK

PROCESSES = ("soi220", "soi220_two_metal", "soi220_flipchip")


def smallest() -> AveragingNetwork:
    return carry_chain(Averaging(2, 2, 1))


def digests(directory: Path) -> dict[str, str]:
    """Digest of every file of a build; of the report's page, whose times differ, that of its pictures."""
    found = {}
    for path in sorted(directory.iterdir()):
        content = path.read_bytes().replace(str(directory).encode(), b"")
        if path.suffix == ".html":
            content = b"".join(re.findall(rb"data:image/png;base64,[^\"]+", content))
            assert content, f"{path} has no picture"
        if not path.name.endswith(".report.json"):
            found[path.name] = hashlib.sha256(content).hexdigest()
    return found


def in_threads(work: Callable[[str], object], names: tuple[str, ...]) -> dict[str, object]:
    """Call a function for every name at once, each in a thread of its own; return results or exceptions."""
    results: dict[str, object] = {}
    ready = threading.Barrier(len(names))

    def run(name: str) -> None:
        ready.wait()
        try:
            results[name] = work(name)
        except BaseException as fault:
            results[name] = fault

    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def wrong_rounds(rounds: int, folder: Path, names: tuple[str, ...] = PROCESSES) -> list[str]:
    """Build with every process in a thread, several times; return what differs from builds one after another."""
    network, expected = smallest(), {}
    for name in names:
        assert op.build(network, folder / "alone" / name, op.BuildOptions(name="c", process=name)).passed
        expected[name] = digests(folder / "alone" / name)
    wrong = []
    for number in range(rounds):
        directory = folder / str(number)

        def work(name: str, directory: Path = directory) -> dict[str, str]:
            op.build(network, directory / name, op.BuildOptions(name="c", process=name))
            return digests(directory / name)

        for name, found in in_threads(work, names).items():
            if found != expected[name]:
                wrong.append(f"round {number}, {name}: {found!r}")
        shutil.rmtree(directory)
    return wrong


def layout_bytes(process: str) -> bytes:
    card = load_process(process)
    _, chip = lay_out_network(smallest(), card, "c")
    options = kdb.SaveLayoutOptions()
    options.format, options.gds2_write_timestamps, options.write_context_info = "GDS2", False, False
    return bytes(to_layout(chip, card, "c").write_bytes(options))


@pytest.mark.full
def test_builds_in_threads_equal_builds_one_after_another(tmp_path: Path) -> None:
    assert wrong_rounds(1, tmp_path, PROCESSES[:2]) == []


def test_layouts_in_threads_equal_layouts_one_after_another() -> None:
    expected = {name: layout_bytes(name) for name in PROCESSES}
    assert len(set(expected.values())) == len(PROCESSES)
    for _ in range(4):
        assert in_threads(layout_bytes, PROCESSES) == expected


def test_a_thread_sees_the_pdk_that_it_activated_while_others_lay_out() -> None:
    get_pdk("soi220_flipchip").activate()
    names, stop = set(), threading.Event()

    def draw() -> None:
        while not stop.is_set():
            names.add(CELLS["straight"](length=12.0).name)

    drawing = threading.Thread(target=draw)
    drawing.start()
    in_threads(layout_bytes, PROCESSES[:2])
    stop.set()
    drawing.join()
    assert names == {CELLS["straight"](length=12.0).name} and "_" in names.pop()
    assert gf.get_active_pdk() is get_pdk("soi220_flipchip")


def lock_is_free() -> bool:
    """Whether another thread can take the lock of the layout database."""
    taken: list[bool] = []

    def take() -> None:
        taken.append(LAYOUT_LOCK.acquire(timeout=5))
        if taken[0]:
            LAYOUT_LOCK.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return taken[0]


@pytest.mark.parametrize("delay_s", [0.001, 0.02, 0.05])
def test_an_interrupt_leaves_no_lock_and_no_other_pdk(delay_s: float) -> None:
    get_pdk("soi220").activate()
    expected = layout_bytes("soi220_two_metal")
    ended: list[type[BaseException]] = []

    def work() -> None:
        try:
            while True:
                layout_bytes("soi220_two_metal")
        except KeyboardInterrupt:
            ended.append(KeyboardInterrupt)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(delay_s)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt)
    )
    thread.join()
    assert ended == [KeyboardInterrupt]
    assert lock_is_free()
    assert gf.get_active_pdk() is get_pdk("soi220")
    assert gc.isenabled()
    assert layout_bytes("soi220_two_metal") == expected


def test_an_error_restores_the_active_pdk_and_frees_the_lock() -> None:
    get_pdk("soi220").activate()
    with pytest.raises(ZeroDivisionError), active_pdk("soi220_two_metal") as pdk:
        assert gf.get_active_pdk() is pdk and not lock_is_free_now()
        raise ZeroDivisionError
    assert gf.get_active_pdk() is get_pdk("soi220") and lock_is_free()


def lock_is_free_now() -> bool:
    return in_threads(lambda _: LAYOUT_LOCK.acquire(blocking=False), ("one",))["one"] is True


def test_a_copy_of_a_process_with_its_name_is_activated(tmp_path: Path) -> None:
    shutil.copytree(load_process("soi220").folder, tmp_path / "mine")
    card = tmp_path / "mine" / "process.yml"
    text = card.read_text()
    changed = re.sub(r"radius_um: \{value: [0-9.]+", "radius_um: {value: 12", text, count=1)
    assert changed != text
    card.write_text(changed)
    get_pdk("soi220").activate()
    own = CELLS["bend_circular"]().dbbox().width()
    get_pdk(tmp_path / "mine").activate()
    assert CELLS["bend_circular"]().dbbox().width() > own + 1.0


def test_the_collector_is_enabled_after_overlapping_pauses() -> None:
    first, second = gc_paused(), gc_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def main() -> int:
    """Run rounds of builds in threads; exit code 1 if any differs."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        wrong = wrong_rounds(rounds, Path(folder))
    seconds = time.perf_counter() - start
    print(f"threads: {rounds} rounds of {len(PROCESSES)} builds, {len(wrong)} wrong, {seconds:.0f} s", *wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
