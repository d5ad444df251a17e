"""Trial reading of OASIS files: a file that keeps KLayout's reader busy for hours is refused."""

from pathlib import Path

import klayout.db as kdb
import pytest

from optinc_pdk.extract import GdsError, trial_reading
from optinc_pdk.extract.layout_reader import read_layout

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
    monkeypatch.setattr(trial_reading, "MAX_SECONDS", 1)
    with pytest.raises(GdsError, match=r"endless\.oas: cannot be read within 1 s .*; check the counts"):
        read_layout(path)


def test_an_ordinary_file_passes_and_a_damaged_one_is_left_to_the_reader(tmp_path: Path) -> None:
    layout = kdb.Layout()
    layout.create_cell("top").shapes(layout.layer(1, 0)).insert(kdb.Box(0, 0, 10, 10))
    path = tmp_path / "a.oas"
    layout.write(str(path))
    trial_reading.check_reading_time(path, path.read_bytes(), 2**30)
    read, top = read_layout(path)
    assert (top.name, read.cells()) == ("top", 1)
    path.write_bytes(path.read_bytes()[:40])
    trial_reading.check_reading_time(path, path.read_bytes(), 2**30)
    with pytest.raises(GdsError, match=r"a\.oas: damaged"):
        read_layout(path)


def test_a_file_whose_trial_cannot_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "endless.oas"
    path.write_bytes(ENDLESS)
    monkeypatch.setattr(trial_reading, "_SCRIPT", "raise SystemExit(3)")
    with pytest.raises(GdsError, match=r"endless\.oas: cannot be read .*exit code 3"):
        read_layout(path)
