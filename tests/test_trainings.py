"""Parts of examples/training that need no ranks, and its launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from optinc_pdk.files import InputError
from optinc_pdk.interconnect.workloads import llama, resnet50

TRAINING = Path(__file__).parent.parent / "examples" / "training"
sys.path.insert(0, str(TRAINING))

import table  # noqa: E402
from data import IMAGE_BYTES, Data, cifar, generated_images, text  # noqa: E402
from loop import TASKS  # noqa: E402
from models import Decoder, DecoderSize, rotated  # noqa: E402


def write_cifar(path: Path, labels: int, classes: list[int]) -> None:
    """Images whose bytes are 51 in red and their class in the rest."""
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
    with pytest.raises(InputError, match="unpack the binary version there"):
        cifar(tmp_path)
    write_cifar(tmp_path / "train.bin", 2, [1, 2])
    with pytest.raises(InputError, match=r"test\.bin: No such file"):
        cifar(tmp_path)
    write_cifar(tmp_path / "test.bin", 1, [1, 2])
    with pytest.raises(InputError, match=r"test\.bin: 6146 bytes are no multiple of 3074"):
        cifar(tmp_path)
    write_cifar(tmp_path / "train.bin", 2, [1, 100])
    with pytest.raises(InputError, match="class 100 of 100"):
        cifar(tmp_path)


def test_samples_depend_on_seed_step_and_rank_alone(tmp_path):
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
    with pytest.raises(InputError, match=r"mine\.txt: 200 bytes; sequences of 16 take at least 320"):
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


def test_the_decoder_sees_no_later_token_and_distances_alone():
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


def test_differences_are_those_of_the_same_seed():
    ring = [{"scheme": "ring", "seed": seed, "loss": 2.0 + seed, "accuracy": 0.5} for seed in (0, 1)]
    over_chip = [{"scheme": "optinc-8", "seed": seed, "loss": 2.01 + seed, "accuracy": 0.494} for seed in (0, 1)]
    results = [*ring, *over_chip]
    assert table.learnt("llama", over_chip, results)[3:] == ("+0.0100 ± 0.0000", "within")
    assert table.learnt("resnet", over_chip, results)[1:] == (
        "2.5100 ± 0.5000",
        "49.40 ± 0.00 %",
        "−0.60 ± 0.00 points",
        "**missed**",
    )
    assert table.learnt("resnet", ring, results)[-1] == "–"


def children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds a rank's process in /proc")
def test_a_killed_rank_ends_the_job_and_is_named(tmp_path):
    novel = tmp_path / "novel.txt"
    novel.write_bytes(b"light " * 400)
    command = [sys.executable, TRAINING / "train.py", "llama", "--text", novel, "--steps", "100000", "-o", tmp_path]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as job:
        try:
            log = tmp_path / "small.llama.ring.0.csv"
            until = time.monotonic() + 240  # a machine under load is slow to start
            while not (log.is_file() and len(log.read_text().splitlines()) > 10):
                assert job.poll() is None and time.monotonic() < until, "the training did not start"
                time.sleep(0.05)
            third = next(
                child for child in children(job.pid) if b"\0RANK=2\0" in Path(f"/proc/{child}/environ").read_bytes()
            )
            os.kill(third, signal.SIGKILL)
            said = job.communicate(timeout=60)[1]
        finally:
            job.terminate()
    assert job.returncode == 1
    assert "rank 2 of 4 was killed (SIGKILL); the job has ended" in said
    assert "error: rank 0 of 4: " in said
    assert not list(tmp_path.glob("*.json"))
