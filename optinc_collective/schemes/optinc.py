"""OptINC as a communication hook of `DistributedDataParallel` (arXiv 2603.28290).

Steps for a bucket of n gradients, on every rank:

1. Determine the largest exponent of every block over all ranks: an all-reduce (MAX) of one byte per block.
2. Convert gradients to words of B bits. Every server sends n·B bits to the chip: `Traffic.payload`.
3. Pass the words through the chip. The chip is emulated: an all-reduce (SUM) of integers adds up the servers' codes,
   and a table gives the chip's output for every sum. `Traffic.stand_in` counts the bytes of this all-reduce.
4. Convert words to gradients.

The chip truncates, so its result is (N-1)/2N steps below the mean on average. The option "unbiased" compensates for
this by rounding words higher by the same amount; the paper does not.

No `from __future__ import annotations` here: torch compares the annotations of a communication hook with its own types.
"""

from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined] # public, but its stub does not say so
from torch.nn.parallel import DistributedDataParallel

from optinc_collective.schemes import _codec as codec
from optinc_collective.schemes._chips import AveragingChip, network_chip, table_chip
from optinc_collective.schemes.scheme import (
    Scheme,
    Traffic,
    completed,
    describe_unusable,
    parameter_names,
    raise_on_all_ranks,
    refuse_gradients,
    refuse_sparse,
    report_lost_rank,
    require_equal_on_all_ranks,
    require_equal_parameters,
    ring_bytes,
)
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.validation import validate_type

BLOCK = 256
"""Default number of gradients that share an exponent: the exponents add at most 1/128 to the bytes of 8-bit words."""

Rounding = Literal["nearest", "unbiased"]
"""Rounding of gradients to words; see `OptincState`."""


class OptincState:
    """State of `optinc_hook` for one model: the chip, the block size, the rounding and the traffic.

    Args:
        model: The model in `DistributedDataParallel`. The ranks of its process group are the servers of the chip.
        chip: The chip, or the path of a file: a `.function.npz` written by `optinc build`, or a network's weights.
        block: Number of gradients that share an exponent.
        traffic: Counter to which the bytes sent are added; a new counter by default.
        rounding: Rounding of gradients to words. "nearest": as in the paper; the average is biased by the chip's
            truncation. "unbiased": every server adds `AveragingChip.offset` before rounding, so that the average is
            unbiased; gradients of 0 stay 0.

    Raises:
        InputError: The chip and the job have different numbers of servers; the ranks have different chips or models;
            or an argument is invalid. Raised on every rank.
        CommunicationError: A rank was lost.
    """

    def __init__(
        self,
        model: DistributedDataParallel,
        chip: AveragingChip | str | Path,
        block: int = BLOCK,
        traffic: Traffic | None = None,
        rounding: Rounding = "nearest",
    ) -> None:
        wrapped = isinstance(model, DistributedDataParallel)
        with raise_on_all_ranks(model.process_group if wrapped else None):
            if not wrapped:
                raise InputError(f"the model is a {type(model).__name__}: wrap it in DistributedDataParallel first")
            validate_type("chip", chip, AveragingChip | str | Path)
            self.chip = chip if isinstance(chip, AveragingChip) else read_chip(chip)
            if isinstance(block, bool) or not isinstance(block, int) or block < 1:
                raise InputError(f"block = {block!r} gradients that share an exponent: give a whole number from 1")
            validate_type("traffic", traffic, Traffic | None)
            validate_type("rounding", rounding, Rounding)
        self.group: dist.ProcessGroup = model.process_group
        text = f"{self.chip.source} {self.chip.bits} bits, blocks of {block}, {rounding} rounding, {self.chip.digest}"
        require_equal_on_all_ranks("chip", text, "give every rank the same chip, block and rounding", self.group)
        self.rank, self.world = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.world != self.chip.servers:
            raise InputError(
                f"{self.chip.source} averages {self.chip.servers} servers, the job has {self.world} ranks: start "
                f"{self.chip.servers} ranks, or use a chip for {self.world} servers"
            )
        require_equal_parameters(model.module, self.group)
        self.block = block
        self.offset = self.chip.offset(self.rank) if rounding == "unbiased" else 0.0
        self.traffic = traffic or Traffic()
        self.draws = 0
        self._names = parameter_names(model.module)
        self._groups = _groups(self.chip, self.group)
        self._tables: dict[torch.device, list[torch.Tensor | None]] = {}
        self._scratch: dict[tuple[torch.device, int], torch.Tensor] = {}

    def average(self, bucket: GradBucket) -> None:
        """Replace the gradients of a bucket, of any floating-point type, by the chip's average over all ranks.

        Raises:
            InputError: Gradients are sparse, NaN, infinite, or 2^127 or larger in magnitude. Raised on every rank; the
                message names the parameters.
            CommunicationError: A rank was lost; the gradients are then invalid.
        """
        refuse_sparse(bucket, self._names)
        gradients = bucket.buffer()
        if not len(gradients):  # parameters without elements, on all ranks
            return
        values = gradients.to(torch.float32)
        what = f"bucket {bucket.index()}"
        exponents = codec.block_exponents(values, self.block)
        with report_lost_rank(f"the exponents of {what}", self.group):
            dist.all_reduce(exponents, dist.ReduceOp.MAX, group=self.group)
        self.traffic.side += ring_bytes(len(exponents), self.world)
        if int(exponents.max()) >= codec.TOO_LARGE:
            found = describe_unusable(bucket, self._names, lambda values: values.to(torch.float32).abs() < codec.LIMIT)
            refuse_gradients(f"NaN, infinite or above {codec.LIMIT:.1e}", found, self.group)
        step, inverse = codec.block_steps(exponents, self.chip.bits)
        codes = self._through_chip(values, inverse, f"the words of {what}")
        self._read(codes, step, values)
        if values is not gradients:
            # the lowest word can lie one step below the smallest float16
            limit = min(torch.finfo(gradients.dtype).max, torch.finfo(values.dtype).max)
            gradients.copy_(values.clamp_(-limit, limit))

    def _through_chip(self, values: torch.Tensor, inverse: torch.Tensor, what: str) -> torch.Tensor:
        """Index at the last level for every gradient."""
        chip, device = self.chip, values.device
        codes = self._codes(0, values)
        position = self.rank % chip.levels[0].units if len(chip.places) > 1 else 0
        codec.encode(values, inverse, self.block, chip.bits, chip.places[position], codes, self.offset)
        self.traffic.payload += -(-len(values) * chip.bits // 8)
        self._add_up(0, codes, what)
        for below, level in enumerate(chip.levels[:-1]):
            upper = self._codes(below + 1, values)
            codec.next_level_codes(codes, level, self._table(below, device), upper)
            codes = upper
            self._add_up(below + 1, codes, what)
        return codes

    def _add_up(self, level: int, codes: torch.Tensor, what: str) -> None:
        """Sum codes over the servers of this rank's unit, packed into 32-bit integers; no sum reaches the next."""
        packed = self._scratch[codes.device, level][: -(-codes.nbytes // 4)]
        with report_lost_rank(what, self.group):
            dist.all_reduce(packed, group=self._groups[level])
        self.traffic.stand_in += ring_bytes(packed.nbytes, self.chip.levels[level].units)

    def _codes(self, level: int, values: torch.Tensor) -> torch.Tensor:
        """Buffer for the codes of a level; it is kept between steps."""
        kind = codec.code_type(self.chip.levels[level], values.device)
        size = -(-len(values) * kind.itemsize // 4)
        buffer = self._scratch.get((values.device, level))
        if buffer is None or len(buffer) < size:
            buffer = torch.zeros(size, dtype=torch.int32, device=values.device)
            self._scratch[values.device, level] = buffer
        return buffer[:size].view(kind)[: len(values)]

    def _table(self, level: int, device: torch.device) -> torch.Tensor | None:
        """Table of a level for this rank, on the given device; None if the level has no table."""
        if device not in self._tables:
            rows = []
            for each in self.chip.levels:
                reader = self.rank % each.units if each.outputs is not None and len(each.outputs) > 1 else 0
                rows.append(None if each.outputs is None else torch.from_numpy(each.outputs[reader]).to(device))
            self._tables[device] = rows
        return self._tables[device][level]

    def _read(self, codes: torch.Tensor, step: torch.Tensor, out: torch.Tensor) -> None:
        """Convert indices to gradients, with errors drawn from the chip's histogram."""
        bits, top = self.chip.bits, self.chip.levels[-1]
        table = self._table(len(self.chip.levels) - 1, out.device)
        codec.decode(codes, step, self.block, bits, top, table, out)
        if self.chip.errors is None:
            return
        where, errors = self.chip.errors.draw(len(out), self.draws)
        self.draws += 1
        places = torch.from_numpy(where).to(out.device)
        wrong_step = step[places // self.block]
        half = 1 << (bits - 1)
        read = torch.round(out[places] / wrong_step) + torch.from_numpy(errors).to(out.device, torch.float32)
        out[places] = read.clamp(-half, half - 1) * wrong_step


def optinc_hook(state: OptincState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Communication hook that averages the gradients of a bucket by the chip, in place; see `OptincState.average`.

    It is registered by ``ddp.register_comm_hook(state, optinc_hook)``.
    """
    state.average(bucket)
    return completed(bucket)


class Optinc(Scheme):
    """Training scheme OptINC (arXiv 2603.28290), which averages gradients by the chip.

    Args:
        chip: The chip, or the path of a file; see `OptincState`.
        block: Number of gradients that share an exponent.
        group: Process group; all ranks by default.
        rounding: Rounding of gradients to words; see `OptincState`.
    """

    name = "OptINC"

    def __init__(
        self,
        chip: AveragingChip | str | Path,
        block: int = BLOCK,
        group: dist.ProcessGroup | None = None,
        rounding: Rounding = "nearest",
    ) -> None:
        super().__init__()
        self.chip = chip
        self.block = block
        self.group = group
        self.rounding = rounding

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap the model in `DistributedDataParallel` with `optinc_hook`; see `Scheme.wrap`."""
        require_equal_parameters(model, self.group)
        wrapped = DistributedDataParallel(model, process_group=self.group)
        state = OptincState(wrapped, self.chip, self.block, self.traffic, self.rounding)
        wrapped.register_comm_hook(state, optinc_hook)
        return wrapped


def read_chip(path: str | Path) -> AveragingChip:
    """Create a chip from a `.function.npz` of an extracted chip, or else from a network's weights.

    Raises:
        InputError: The file is missing, damaged, or has another format.
    """
    if str(path).lower().endswith(".function.npz"):
        return table_chip(path)
    return network_chip(AveragingNetwork.load(path))


def _groups(chip: AveragingChip, group: dist.ProcessGroup) -> list[dist.ProcessGroup]:
    """Process group of every level: the ranks whose codes are added to this rank's.

    In a cascade of units of N servers, rank u·N + s is server s of unit u. At level 2, the servers of the same number s
    represent their units.
    """
    if len(chip.levels) == 1:
        return [group]
    if dist.get_world_size(group) != dist.get_world_size():
        raise InputError("a cascade needs all ranks of the job: do not give the model a process group")
    units, servers = chip.levels[1].units, chip.levels[0].units
    ranks = np.arange(units * servers).reshape(units, servers)
    groups = []
    for rows in (ranks, ranks.T):
        # every rank must create every group, in the same order
        created = [dist.new_group(row) for row in rows.tolist()]
        groups += [each for row, each in zip(rows, created, strict=True) if dist.get_rank() in row]
    return groups
