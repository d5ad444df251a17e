"""Parts of examples/training that do not need ranks, and its launcher."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import studies
import torch
from torch.utils.flop_counter import FlopCounterMode

from optinc_collective.interconnect.training_time import llama, resnet50
from optinc_pdk.errors import InputError

TRAINING = Path(__file__).parent.parent / "examples" / "training"
sys.path.insert(0, str(TRAINING))

import ranks  # noqa: E402
import table  # noqa: E402
import train as command  # noqa: E402
from data import IMAGE_BYTES, Data, cifar, digits, generated_images, text  # noqa: E402
from loop import TASKS, Run, _Log  # noqa: E402
from models import Decoder, DecoderSize, rotated  # noqa: E402
from records import finished, read_result  # noqa: E402
from schemes import build_chip, words_wrong  # noqa: E402


def write_cifar(path: Path, labels: int, classes: list[int]) -> None:
    """Write images whose red bytes are 51 and whose other bytes are their class."""
    rows = np.zeros((len(classes), labels + IMAGE_BYTES), np.uint8)
    rows[:, labels - 1 :] = np.array(classes)[:, None]
    rows[:, labels : labels + IMAGE_BYTES // 3] = 51
    path.write_bytes(rows.tobytes())


def test_cifar_is_read_from_its_binary_files(tmp_path):
    write_cifar(tmp_path / "train.bin", 2, [3, 99, 50, 0])
    write_cifar(tmp_path / "test.bin", 2, [7])
    read = cifar(tmp_path)
    assert (read.classes, read.targets.tolist(), read.test_targets.tolist()) == (100, [3, 99, 50, 0], [7])
    assert read.inputs.shape == (4, 3, 32, 32)
    green = read.inputs[:, 1, 0, 0]
    assert green.argsort().tolist() == [3, 0, 2, 1]
    assert read.inputs[:, 1].mean().item() == pytest.approx(0, abs=1e-6)


def test_damaged_cifar_is_refused(tmp_path):
    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        cifar(tmp_path)
    write_cifar(tmp_path / "train.bin", 2, [1, 2])
    with pytest.raises(InputError, match=r"test\.bin: "):
        cifar(tmp_path)
    write_cifar(tmp_path / "test.bin", 1, [1, 2])
    with pytest.raises(InputError, match=r"test\.bin: 6146 .*3074"):
        cifar(tmp_path)
    write_cifar(tmp_path / "train.bin", 2, [1, 100])
    with pytest.raises(InputError, match=r"train\.bin: class 100.* 100 "):
        cifar(tmp_path)
    write_cifar(tmp_path / "train.bin", 2, [1, 2])
    write_cifar(tmp_path / "test.bin", 2, [200])
    with pytest.raises(InputError, match=r"test\.bin: class 200.* 100 "):
        cifar(tmp_path)


def test_digits_are_real_images_split_once():
    read = digits()
    assert read.inputs.shape == (1198, 1, 8, 8)
    assert read.test_inputs.shape == (599, 1, 8, 8)
    assert read.inputs.mean().item() == pytest.approx(0, abs=1e-5)
    assert torch.bincount(read.targets).min() > 100
    assert torch.bincount(read.test_targets).min() > 40
    assert digits().digest == read.digest
    everything = torch.cat([read.inputs, read.test_inputs]).flatten(1)
    assert len(everything.unique(dim=0)) == 1797


def test_missing_scikit_learn_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InputError, match="pip install scikit-learn"):
        digits()


def test_a_few_steps_learn_the_digits():
    read = digits()
    torch.manual_seed(0)
    network = TASKS["small"]["digits"].make(read)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for step in range(40):
        inputs, targets = read.batch(64, 0, step, 0)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(inputs), targets).backward()
        optimizer.step()
    network.eval()
    with torch.no_grad():
        accuracy = (network(read.test_inputs).argmax(1) == read.test_targets).float().mean().item()
    assert accuracy > 0.85


@pytest.mark.full
def test_chips_of_trainings_are_built(tmp_path):
    assert words_wrong(build_chip("extracted", tmp_path)) == 0
    assert 0.001 < words_wrong(build_chip("imperfect", tmp_path)) < 0.05


def test_samples_depend_only_on_seed_step_and_rank(tmp_path):
    images = generated_images(8, 4, 50, 21, 0.1)
    again = generated_images(8, 4, 50, 21, 0.1)
    assert images.digest == again.digest
    assert torch.equal(images.batch(5, 1, 2, 3)[0], again.batch(5, 1, 2, 3)[0])
    for other in ((0, 2, 3), (1, 0, 3), (1, 2, 0)):
        assert not torch.equal(images.batch(5, 1, 2, 3)[0], images.batch(5, *other)[0])
    shares = [images.tests(4, None, rank, 4) for rank in range(4)]
    assert sum(len(targets) for share in shares for _, targets in share) == 21
    path = tmp_path / "mine.txt"
    path.write_bytes(bytes(range(200)))
    inputs, targets = text(path, 8).batch(3, 0, 0, 0)
    assert torch.equal(targets, inputs + 1)
    with pytest.raises(InputError, match=r"mine\.txt: 200 bytes; .*16 .*320"):
        text(path, 16)


def test_the_full_sizes_are_those_of_the_paper():
    images = Data("", torch.zeros(1, 3, 32, 32), *[torch.zeros(0)] * 3, classes=100)
    tokens = Data("", *[torch.zeros(0)] * 4, classes=256, context=512)
    with torch.device("meta"):
        network, decoder = TASKS["full"]["resnet"].make(images), TASKS["full"]["llama"].make(tokens)
        with FlopCounterMode(display=False) as counter:
            network(torch.zeros(1, 3, 32, 32))
    of_paper = resnet50(32, 100, small_stem=True)
    assert sum(parameter.numel() for parameter in network.parameters()) == of_paper.parameters
    assert counter.get_total_flops() == 2 * of_paper.multiplications
    assert sum(parameter.numel() for parameter in decoder.parameters()) == llama(8, 384, 1024, 32_000, 512).parameters


def test_the_decoder_is_causal_and_positions_are_relative():
    torch.manual_seed(0)
    decoder = Decoder(DecoderSize(2, 16, 2, 24, 11))
    tokens = torch.arange(10)[None]
    changed = tokens.clone()
    changed[0, 6] = 0
    same = torch.isclose(decoder(tokens), decoder(changed), atol=1e-6).all(dim=1)[0]
    assert same[:6].all()
    assert not same[6:].any()
    query, key = torch.randn(2, 1, 8, dtype=torch.float64).expand(2, 10, 8)
    products = rotated(query) @ rotated(key).T
    assert torch.allclose(products[3, 1], products[7, 5], atol=1e-5)
    assert not torch.isclose(products[3, 1], products[7, 1], atol=1e-3)


def test_differences_are_taken_between_equal_seeds():
    ring = [{"scheme": "ring", "seed": seed, "loss": 2.0 + seed, "accuracy": 0.5} for seed in (0, 1)]
    over_chip = [{"scheme": "optinc-8", "seed": seed, "loss": 2.01 + seed, "accuracy": 0.494} for seed in (0, 1)]
    results = [*ring, *over_chip]
    assert table.accuracies("llama", over_chip, results)[3:] == ("+0.0100 ± 0.0000", "within")
    assert table.accuracies("resnet", over_chip, results)[1:] == (
        "2.5100 ± 0.5000",
        "49.40 ± 0.00 %",
        "−0.60 ± 0.00 points",
        "**missed**",
    )
    assert table.accuracies("resnet", ring, results)[-1] == "–"


def children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds a rank's process in /proc")
def test_a_killed_rank_ends_the_job_and_is_named(tmp_path):
    novel = tmp_path / "novel.txt"
    novel.write_bytes(b"light " * 400)
    command = [sys.executable, TRAINING / "train.py", "llama", "--text", novel, "--steps", "100000", "-o", tmp_path]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as job:
        try:
            log = tmp_path / "small.llama.ring.0.csv"
            deadline = time.monotonic() + 240  # only stops a hanging test; starting is slow under load
            while not (log.is_file() and len(log.read_text().splitlines()) > 10):
                assert job.poll() is None and time.monotonic() < deadline, "the training did not start"
                time.sleep(0.05)
            third = next(
                child for child in children(job.pid) if b"\0RANK=2\0" in Path(f"/proc/{child}/environ").read_bytes()
            )
            os.kill(third, signal.SIGKILL)
            message = job.communicate(timeout=60)[1]
        finally:
            job.terminate()
    assert job.returncode == 1
    assert "rank 2 of 4 was killed (SIGKILL)" in message
    assert "error: rank 0 of 4: " in message
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chain", "--seed", str(2**64)], "--seed 18446744073709551616: .*0 to"),
        (["chain", "--timeout", "nan"], "--timeout nan: "),
        (["chain", "--timeout", "-1"], "--timeout -1: "),
        (["chain", "--text", "novel.txt"], "--text novel.txt: "),
        (["llama", "--cifar", "cifar"], "--cifar cifar: "),
        (["digits", "llama", "--cifar", "cifar"], "--cifar cifar: "),
        (["digits", "--size", "full"], "digits has no size full"),
    ],
)
def test_invalid_options_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        command.runs_of(command.parser().parse_args(arguments))


def test_an_output_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").touch()
    options = command.parser().parse_args(["chain", "-o", str(tmp_path / "out")])
    with pytest.raises(InputError, match=r"out: .*File exists"):
        command.prepare(options, [])


def a_result(folder: Path, scheme: str = "ring", **changed: object) -> dict[str, object]:
    """Write a result of three steps and its log to a folder; returns the result."""
    result = {"size": "small", "model": "chain", "scheme": scheme, "steps": 3, "seed": 0, "data": "few"}
    result |= {"data_digest": "d", "parameters": 400, "rest": 0, "payload": 600.0, "side": 0.0, "flop": 1e6}
    result |= {"loss": 1.0, "accuracy": 0.5, "wall_s": 0.1} | changed
    stem = folder / f"small.chain.{scheme}.0"
    stem.with_name(stem.name + ".json").write_text(json.dumps(result))
    stem.with_name(stem.name + ".csv").write_text("step,loss,seconds\n1,3.0,0\n2,2.0,0\n3,1.0,0\n")
    return result


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"size": "sm'])
def test_a_damaged_result_is_ignored(tmp_path, content):
    path = tmp_path / "small.chain.ring.0.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"small\.chain\.ring\.0\.json: "):
        read_result(path)
    assert finished(Run("small", "chain", "ring", 3, 0), generated_images(8, 4, 5, 3, 0.1), tmp_path) is None


def test_a_result_is_found_by_its_settings_and_data(tmp_path):
    data = generated_images(8, 4, 5, 3, 0.1)
    result = a_result(tmp_path, data_digest=data.digest)
    assert finished(Run("small", "chain", "ring", 3, 0), data, tmp_path) == result
    assert finished(Run("small", "chain", "ring", 4, 0), data, tmp_path) is None
    assert finished(Run("small", "chain", "ring", 3, 0), generated_images(8, 4, 6, 3, 0.1), tmp_path) is None


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """File of the results of all trainings."""
    monkeypatch.setattr(table, "DOCS", tmp_path)
    monkeypatch.setattr(studies, "RESULTS", tmp_path)
    return tmp_path / "training.json"


def test_tables_of_trainings_shorter_than_the_window_of_a_curve(recorded, tmp_path):
    table.write([a_result(tmp_path), a_result(tmp_path, "torch")], tmp_path)
    assert recorded.is_file()
    line = "| torch all-reduce | 0 | 1.0000 | 50.00 % | +0.00 points | within | 600 | 1.000 |"
    assert line in studies.inserted("training")


def test_results_that_do_not_match_are_refused(recorded, tmp_path):
    ring = a_result(tmp_path)
    with pytest.raises(InputError, match=r"small\.chain\.torch\.0\.json .*steps 4, .* 3;"):
        table.write([ring, a_result(tmp_path, "torch", steps=4)], tmp_path)
    torch_ = a_result(tmp_path, "torch")
    log = tmp_path / "small.chain.torch.0.csv"
    log.write_text("step,loss,seconds\n1,3.0,0\n2,2.")
    with pytest.raises(InputError, match=r"torch\.0\.csv: (2 of 3|not a log)"):
        table.write([ring, torch_], tmp_path)
    log.unlink()
    with pytest.raises(InputError, match=r"torch\.0\.csv: "):
        table.write([ring, torch_], tmp_path)
    with pytest.raises(InputError, match="ring with seed 0"):
        table.write([ring | {"seed": 1}], tmp_path)
    assert not recorded.exists()


def test_a_damaged_table_of_a_chip_is_refused(tmp_path):
    path = tmp_path / "chip.function.npz"
    path.write_text("nothing")
    with pytest.raises(InputError, match=r"chip\.function\.npz: "):
        words_wrong(path)


def test_ranks_end_with_the_process_that_started_them(tmp_path):
    rank = tmp_path / "rank.py"
    rank.write_text("import os, time; open(f'{os.environ[\"RANK\"]}.pid', 'w').close(); time.sleep(60)")
    starts = f"import sys; sys.path.insert(0, {str(TRAINING)!r}); import ranks; ranks.launch([{str(rank)!r}], 2)"
    with subprocess.Popen([sys.executable, "-c", starts], cwd=tmp_path, stderr=subprocess.PIPE) as job:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        job.send_signal(signal.SIGTERM)
        # the ranks inherit the pipe, so it is closed when all of them have ended
        job.communicate(timeout=20)
    assert job.returncode == 128 + signal.SIGTERM


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which acts as a full disk")
def test_a_log_on_a_full_disk_is_reported(tmp_path):
    path = tmp_path / "log.csv"
    path.symlink_to("/dev/full")
    with pytest.raises(InputError, match=r"log\.csv: .*No space left"), _Log(path, 0) as log:
        log.write(1, [2.0], 0.0)


def test_the_rank_with_invalid_input_is_named_before_those_that_lost_it(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(ranks, "end_on_request", lambda: None)
    rank = tmp_path / "rank.py"
    rank.write_text(
        "import os, sys, time; second = os.environ['RANK'] == '1'; time.sleep(second); sys.exit(1 + second)"
    )
    assert ranks.launch([str(rank)], 2) == 2
    assert "rank 1 of 2 ended with code 2" in capfd.readouterr().err


def test_a_rank_that_hangs_is_named(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(ranks, "end_on_request", lambda: None)
    monkeypatch.setattr(ranks, "GRACE_PERIOD_S", 0.5)
    rank = tmp_path / "rank.py"
    rank.write_text("import os, sys, time; time.sleep(60 * (os.environ['RANK'] == '1')); sys.exit(1)")
    assert ranks.launch([str(rank)], 2) == 1
    assert re.search(r"0\.5 s .*: rank 1\n", capfd.readouterr().err)
