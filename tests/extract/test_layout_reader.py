"""Layout files that raise an error which names the file and the reason: damaged, too large, of another process."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import klayout.db as kdb
import pytest

import optinc_pdk.extract.layout_reader as reader
from optinc_pdk.cards import load_process
from optinc_pdk.extract import GdsError, extract
from optinc_pdk.extract.layout_reader import check_layers, read_checked, read_layout
from optinc_pdk.signoff.drc.design_rule_check import check_chip, run_drc
from optinc_pdk.signoff.electrical.wiring import read_wiring

PROCESS = load_process()
FAR = 2**31 - 1


def record(kind: int, data: int, content: bytes = b"") -> bytes:
    return struct.pack(">HBB", len(content) + 4, kind, data) + content


def text(content: bytes) -> bytes:
    return content + b"\0" * (len(content) % 2)


def integers(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


def real(value: float) -> bytes:
    """Encode an eight-byte real of the stream format: sign, exponent to base 16, fraction."""
    if value == 0:
        return bytes(8)
    sign, value, power = (0x80 if value < 0 else 0), abs(value), 64
    while value >= 1:
        value, power = value / 16, power + 1
    while value < 1 / 16:
        value, power = value * 16, power - 1
    return bytes([sign | power]) + int(value * 2**56).to_bytes(7, "big")


def stream(*cells: bytes, unit: float = 0.001) -> bytes:
    start = record(0, 2, b"\x02\x58") + record(1, 2, bytes(24)) + record(2, 6, b"LIB\0")
    return start + record(3, 5, real(unit) + real(unit * 1e-6)) + b"".join(cells) + record(4, 0)


def cell(name: bytes, *elements: bytes) -> bytes:
    return record(5, 2, bytes(24)) + record(6, 6, text(name)) + b"".join(elements) + record(7, 0)


def rectangle(left: int, bottom: int, right: int, top: int, layer: int = 3) -> bytes:
    points = integers(left, bottom, left, top, right, top, right, bottom, left, bottom)
    return (
        record(8, 0)
        + record(13, 2, struct.pack(">h", layer))
        + record(14, 2, b"\0\0")
        + record(16, 3, points)
        + record(17, 0)
    )


def path(width: int) -> bytes:
    head = record(9, 0) + record(13, 2, b"\0\3") + record(14, 2, b"\0\0") + record(15, 3, integers(width))
    return head + record(16, 3, integers(0, 0, 10_000, 0, 10_000, 10_000)) + record(17, 0)


def placed(name: bytes, x: int = 0, y: int = 0, magnified: float | None = None) -> bytes:
    size = b"" if magnified is None else record(0x1A, 1, b"\0\0") + record(0x1B, 5, real(magnified))
    return record(10, 0) + record(18, 6, text(name)) + size + record(16, 3, integers(x, y)) + record(17, 0)


def array(name: bytes, columns: int, rows: int, width: int, height: int) -> bytes:
    counts = record(19, 2, struct.pack(">HH", columns, rows))
    return (
        record(11, 0)
        + record(18, 6, text(name))
        + counts
        + record(16, 3, integers(0, 0, width, 0, 0, height))
        + record(17, 0)
    )


def label(content: bytes) -> bytes:
    head = record(12, 0) + record(13, 2, b"\0\x64") + record(0x16, 2, b"\0\0")
    return head + record(16, 3, integers(7, 8)) + record(0x19, 6, text(content)) + record(17, 0)


BOX = rectangle(0, 0, 1000, 450)
WIDE = 60_000_000
CHAIN = [cell(b"C0", BOX), *(cell(b"C%d" % i, placed(b"C%d" % (i - 1))) for i in range(1, 12_000))]
DOUBLED = [cell(b"C0", BOX), *(cell(b"C%d" % i, *2 * [placed(b"C%d" % (i - 1))]) for i in range(1, 600))]
BAD = {
    "one_byte": (b"\0", "neither GDS2 nor OASIS"),
    "gzip": (b"\x1f\x8b\x08" + bytes(100), "gzip"),
    "zeros": (stream(cell(b"TOP", BOX))[:6] + bytes(10_000), "damaged"),
    "no_layer": (stream(cell(b"TOP", record(8, 0) + record(16, 3, integers(0, 0, 0, 5, 5, 5)))), "damaged"),
    "same_name": (stream(cell(b"TOP", BOX), cell(b"TOP", BOX)), "TOP"),
    "itself": (stream(cell(b"A", BOX, placed(b"A"))), ".'A' -> 'A'"),
    "circle": (
        stream(cell(b"A", BOX, placed(b"B")), cell(b"B", placed(b"A")), cell(b"TOP", placed(b"A"))),
        ".'[AB]' -> '[AB]' -> '[AB]'",
    ),
    "missing_cell": (stream(cell(b"TOP", BOX, placed(b"GONE"))), " 1 cells .*.'GONE'"),
    "deep": (stream(*CHAIN), "1,000 deep, .*'C[0-9]+'"),
    "doubled": (stream(*DOUBLED), "cell 'C[0-9]+' has .* shapes and cells .*10,000,000"),
    "array": (
        stream(cell(b"A", BOX), cell(b"TOP", array(b"A", 30_000, 30_000, WIDE, WIDE))),
        "'TOP' has 1,800,000,000 shapes and cells .*10,000,000",
    ),
    "nested_arrays": (
        stream(cell(b"A", BOX), cell(b"B", array(b"A", 3000, 3000, 3000, 3000)), cell(b"TOP", array(b"B", 9, 9, 9, 9))),
        "'B' has 18,000,000 shapes",
    ),
    "array_of_texts": (
        stream(cell(b"A", label(b"x")), cell(b"T", array(b"A", 9999, 9999, 9999, 9999))),
        "'T' has 199,960,002 shapes",
    ),
    "points": (
        stream(
            cell(b"A", *40 * [path(450)]), cell(b"B", *2000 * [placed(b"A")]), cell(b"T", array(b"B", 60, 60, 9, 9))
        ),
        "'T' has 295,203,600 shapes",
    ),
    "far": (stream(cell(b"TOP", rectangle(FAR - 1000, 0, FAR, 450))), "'TOP' .*2,147,484 µm.*1,000,000"),
    "far_together": (
        stream(cell(b"A", BOX), cell(b"B", placed(b"A", 900_000_000)), cell(b"TOP", placed(b"B", 900_000_000))),
        "'TOP' .*1,800,001 µm",
    ),
    "wrapped": (
        stream(cell(b"A", BOX), cell(b"B", placed(b"A", FAR - 10)), cell(b"TOP", placed(b"B", FAR - 10))),
        "2,147,485 µm",
    ),
    "broad_path": (stream(cell(b"TOP", path(FAR))), "'TOP' .* µm.*1,000,000"),
    "magnified_by_0": (stream(cell(b"A", BOX), cell(b"TOP", placed(b"A", 0, 0, 0.0))), "magnified by 0,.*0.01 to 100"),
    "magnified": (stream(cell(b"A", BOX), cell(b"TOP", placed(b"A", 0, 0, 1e12))), r"magnified by 1e\+12"),
    "unit_0": (stream(cell(b"TOP", BOX), unit=0.0), "database unit is 0 µm"),
    "unit_negative": (stream(cell(b"TOP", BOX), unit=-0.001), "database unit is -0.001 µm"),
    "unit_huge": (stream(cell(b"TOP", BOX), unit=1e30), r"database unit is 1e\+30 µm"),
    "name_no_text": (stream(cell(b"\xff\xfe", BOX)), "cell name.*utf-8"),
    "label_no_text": (stream(cell(b"TOP", BOX, label(b"\xff\xfe"))), "label at .0.007,0.008. in cell 'TOP'.*utf-8"),
    "layers": (stream(cell(b"TOP", *(rectangle(0, 0, 9, 9, layer) for layer in range(1200)))), "1,200 layers.*1,000"),
}


@pytest.mark.parametrize("name", BAD)
def test_unusable_files_raise_with_a_message_of_one_line(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content, reason = BAD[name]
    gds = tmp_path / f"{name}.gds"
    gds.write_bytes(content)
    with pytest.raises(GdsError, match=reason) as caught:
        read_layout(gds)
    message = str(caught.value)
    assert message.startswith(f"{gds}: ") and message.count(str(gds)) <= 2 and "\n" not in message
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["deep", "doubled", "array", "nested_arrays", "array_of_texts", "points", "magnified"])
def test_layouts_that_are_too_large_raise_before_klayout_reads_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[Path] = []
    monkeypatch.setattr(reader, "_load", lambda layout, data, path: loads.append(path))
    gds = tmp_path / f"{name}.gds"
    gds.write_bytes(BAD[name][0])
    with pytest.raises(GdsError):
        read_layout(gds)
    assert loads == []


def test_a_valid_hand_written_stream_is_read(tmp_path: Path) -> None:
    gds = tmp_path / "valid.gds"
    parts = (
        cell(b"A", BOX, label(b"in"), path(450)),
        cell(b"TOP", array(b"A", 3, 2, 9000, 4000), placed(b"A", 5, 5, 2.0)),
    )
    gds.write_bytes(stream(*parts))
    layout, top = read_layout(gds)
    assert (top.name, layout.cells(), top.bbox()) == ("TOP", 2, kdb.Box(0, -445, 20_455, 20_005))


def number(value: int) -> bytes:
    """Encode an unsigned integer of OASIS: seven bits per byte, the lowest first."""
    digits = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def oasis(body: bytes) -> bytes:
    start = b"%SEMI-OASIS\r\n" + number(1) + b"\x031.0" + number(0) + number(1000) + number(0) + bytes(12)
    return start + number(14) + b"\x03TOP" + body + number(2) + number(252) + bytes(252) + number(0)


def drawn(repeated: bytes = b"") -> bytes:
    where = number(3) + number(0) + number(1000) + number(450) + number(0) + number(0)
    return number(20) + bytes([0x7F if repeated else 0x7B]) + where + repeated


@pytest.mark.full
def test_oasis_files_that_expand_beyond_the_memory_limit_raise(tmp_path: Path) -> None:
    oas = tmp_path / "bomb.oas"
    oas.write_bytes(oasis(drawn()))
    layout, top = read_layout(oas)
    assert (layout.cells(), top.bbox()) == (1, kdb.Box(0, 0, 1000, 450))
    block = zlib.compressobj(9, zlib.DEFLATED, -15)
    many = (number(20) + b"\0") * 3_000_000
    packed = block.compress(many) + block.flush()
    bomb = drawn() + number(34) + number(0) + number(len(many)) + number(len(packed)) + packed
    repeated = number(1) + number(29_998) + number(29_998) + number(2000) + number(2000)
    layout = kdb.Layout()
    one, top = layout.create_cell("A"), layout.create_cell("TOP")
    one.shapes(layout.layer(3, 0)).insert(kdb.Box(0, 0, 1000, 450))
    grid = kdb.Vector(2000, 0), kdb.Vector(0, 2000)
    top.insert(kdb.CellInstArray(one.cell_index(), kdb.Trans(), *grid, 30_000, 30_000))
    layout.write(str(tmp_path / "array.oas"))
    oas.write_bytes(oasis(bomb))
    (tmp_path / "repeated.oas").write_bytes(oasis(drawn(repeated)))
    # a sixteenth of the limit, which takes a sixteenth of the time; in another process, so that memory freed by other
    # tests does not count
    code = (
        "import sys; import optinc_pdk.extract.layout_reader as reader; reader.MAX_MEMORY //= 16\n"
        "try: reader.read_layout(sys.argv[1])\n"
        "except reader.GdsError as fault: print(fault)"
    )
    for name, reason in (
        ("bomb", "GiB of memory"),
        ("repeated", "GiB of memory"),
        ("array", "'TOP' has 1,800,000,000 shapes"),
    ):
        command = [sys.executable, "-c", code, str(tmp_path / f"{name}.oas")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert reason in done.stdout


@pytest.mark.parametrize("ending", ["gds", "oas"])
def test_randomly_damaged_files_are_read_or_raise_gdserror(
    ending: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(6)
    layout = kdb.Layout()
    small, top = layout.create_cell("SMALL"), layout.create_cell("TOP")
    small.shapes(layout.layer(3, 0)).insert(kdb.Polygon([kdb.Point(0, 0), kdb.Point(50, 900), kdb.Point(700, 0)]))
    small.shapes(layout.layer(41, 0)).insert(kdb.Path([kdb.Point(0, 0), kdb.Point(5000, 0)], 400))
    small.shapes(layout.layer(100, 0)).insert(kdb.Text("in0", 5, 5))
    top.insert(kdb.CellInstArray(small.cell_index(), kdb.Trans(), kdb.Vector(9000, 0), kdb.Vector(0, 9000), 4, 3))
    whole = tmp_path / f"whole.{ending}"
    layout.write(str(whole))
    good, bad = whole.read_bytes(), tmp_path / f"bad.{ending}"
    raised = 0
    # every OASIS file is first read on trial, in a process of its own
    count = {"gds": 300, "oas": 15}[ending]
    for _ in range(count):
        content = bytearray(good)
        for _ in range(rng.choice((1, 2, 10))):
            content[rng.randrange(len(content))] = rng.randrange(256)
        bad.write_bytes(content[: rng.choice((len(content), rng.randrange(len(content))))])
        try:
            read_layout(bad)
        except GdsError as fault:
            raised += 1
            assert str(bad) in str(fault) and "\n" not in str(fault)
    assert count // 3 < raised < count
    assert capfd.readouterr() == ("", "")


def test_layouts_of_another_process_or_database_unit_raise(tmp_path: Path) -> None:
    gds = tmp_path / "other.gds"
    layers = PROCESS.gds_layers
    other = load_process("soi220_two_metal").gds_layers
    for shapes, reason in (
        ([BOX, rectangle(0, 0, 9, 9, 777)], ""),
        ([rectangle(0, 0, 9, 9, 777)], " 777/0 "),
        (
            [rectangle(0, 0, 9, 9, other[name][0]) for name in ("core", "heater", "metal1")],
            "--process: soi220_two_metal",
        ),
    ):
        gds.write_bytes(stream(cell(b"TOP", *shapes)))
        layout, _ = read_layout(gds)
        if not reason:
            check_layers(layout, layers, gds)
            assert "chip.layers" in {found.id for found in check_chip(gds, PROCESS).rules if found.violations}
        else:
            with pytest.raises(GdsError, match=reason):
                check_layers(layout, layers, gds)
    gds.write_bytes(stream(cell(b"TOP", BOX), unit=0.005))
    with pytest.raises(GdsError, match=r"0\.005 µm.* 0\.001;.* 1 nm"):
        check_chip(gds, PROCESS)
    # without a process, it violates the grid rule
    found = {found.id for found in run_drc(gds, PROCESS.rules, layers).rules if found.violations}
    assert "chip.grid" in found


def test_reading_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """KLayout writes polygons of more than 4,090 points, and warns of them on standard output when it reads them."""
    layout = kdb.Layout()
    teeth = [kdb.Point(x, y) for k in range(2500) for x, y in ((20 * k, 100), (20 * k + 10, 50))]
    polygon = kdb.Polygon([kdb.Point(0, 0), *teeth, kdb.Point(50_000, 0)])
    layout.create_cell("\x1b[31mRED\a").shapes(layout.layer(3, 0)).insert(polygon)
    options = kdb.SaveLayoutOptions()
    options.format, options.gds2_max_vertex_count = "GDS2", 8000
    layout.write(str(tmp_path / "long.gds"), options)
    kdb.Layout().read(str(tmp_path / "long.gds"))
    assert "Warning" in capfd.readouterr().out
    assert read_checked(tmp_path / "long.gds").cells() == 1
    assert capfd.readouterr() == ("", "")


# Found by the fuzzer, and minimised.
ENDLESS = bytes.fromhex(
    "2553454d492d4f415349530d0a0103312e300208041c17040f002200654c6dcc3b0a80301005c07241d003889711b38981fc"
    "c85b51ab77ff5b08da5a0f8c8cab0368b5bdf9030903746f7005056c6162656c0d00153f0004030408381700080303747002"
    "8080808080808080808080808080808080808080808080808080808000008080808080808080808080808080808080808080"
    "8080808080808080808080808080808080808080808080808080808080808080808080808080808080808080808080808080"
    "8080808080808080808080808080808080808080808080808080808080808080808080808080808080808080808080808080"
    "8080808080808080808080808080808080808080808080808080808080808080808080808080808080808080808080808080"
    "80808080808080808080808080808080808080808080808080808080808080808080808080808080808080800000ec010178"
    "0123017301"
)


def test_a_file_that_is_read_for_hours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "endless.oas"
    path.write_bytes(ENDLESS)
    monkeypatch.setattr(reader, "MAX_SECONDS", 1)
    with pytest.raises(GdsError, match=r"endless\.oas: cannot be read within 1 s .*; check the counts"):
        read_layout(path)


def test_an_ordinary_file_passes_and_a_damaged_one_is_left_to_the_reader(tmp_path: Path) -> None:
    layout = kdb.Layout()
    layout.create_cell("top").shapes(layout.layer(1, 0)).insert(kdb.Box(0, 0, 10, 10))
    path = tmp_path / "a.oas"
    layout.write(str(path))
    reader.check_reading_time(path, path.read_bytes(), 2**30)
    read, top = read_layout(path)
    assert (top.name, read.cells()) == ("top", 1)
    path.write_bytes(path.read_bytes()[:40])
    reader.check_reading_time(path, path.read_bytes(), 2**30)
    with pytest.raises(GdsError, match=r"a\.oas: damaged"):
        read_layout(path)


def test_a_file_whose_trial_cannot_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "endless.oas"
    path.write_bytes(ENDLESS)
    monkeypatch.setattr(reader, "_SCRIPT", "raise SystemExit(3)")
    with pytest.raises(GdsError, match=r"endless\.oas: cannot be read .*exit code 3"):
        read_layout(path)


FAULT = "Internal error: src/db/db/dbPolygonGenerators.cc:394 m_open.empty () was not true in Region.merged"


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    path, plan = tmp_path / "odd.gds", kdb.Layout()
    cell = plan.create_cell("ODD")
    for name in ("core", "metal", "heater"):
        cell.shapes(plan.layer(*PROCESS.gds_layers[name])).insert(kdb.Box(0, 0, 20_000, 20_000))
    plan.write(str(path))
    return path


@pytest.mark.parametrize(
    "read",
    [
        lambda path: extract(path, PROCESS),
        lambda path: run_drc(path, PROCESS.rules, PROCESS.gds_layers),
        lambda path: read_wiring(path, PROCESS),
    ],
)
def test_an_engine_that_fails_refuses_the_file(layout: Path, monkeypatch: pytest.MonkeyPatch, read) -> None:
    read(layout)

    def broken(*given: object) -> None:
        raise RuntimeError(FAULT)

    for name in ("merged", "merge", "sized", "space_check", "width_check", "interacting", "insert"):
        monkeypatch.setattr(kdb.Region, name, broken)
    with pytest.raises(GdsError, match=r"odd\.gds: KLayout cannot process its polygons \(Internal error: .*draw"):
        read(layout)


def test_other_errors_are_not_hidden(layout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(kdb.Region, "merged", broken)
    monkeypatch.setattr(kdb.Region, "insert", broken)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        extract(layout, PROCESS)
