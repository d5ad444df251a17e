"""OptINC as a communication hook of `DistributedDataParallel` (arXiv 2603.28290).

What a step of a bucket of n gradients does, on every rank:

1. The largest exponent of every block, over all ranks: an all-reduce (MAX) of one byte per block.
2. Gradients to words of B bits. The chip needs n·B bits from every server, and no more: `Traffic.payload`.
3. Words through the chip. There is no chip in this machine, so an all-reduce (SUM) of integers adds up the servers'
   codes, and a table tells what the chip puts out at that sum; what the engine moves for it is `Traffic.stand_in`.
4. Words back to gradients.

The chip truncates, so the average is (N-1)/2N steps below the mean in the middle; words that are rounded higher by as
much make up for it, if asked for. The paper's are not.

Annotations are evaluated here: torch compares those of a communication hook with its own types.
"""

from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined] # public, but its stub does not say so
from torch.nn.parallel import DistributedDataParallel

from optinc_pdk.collective import codec
from optinc_pdk.collective.average import names_of, refuse_gradients, refuse_sparse, unusable
from optinc_pdk.collective.chips import Chip, network_chip
from optinc_pdk.collective.scheme import (
    Scheme,
    Traffic,
    communicating,
    ring_bytes,
    same_everywhere,
    same_parameters,
    together,
)
from optinc_pdk.collective.table import table_chip
from optinc_pdk.errors import InputError
from optinc_pdk.onn import Onn
from optinc_pdk.validation import validate_type

BLOCK = 256
"""Gradients that share an exponent (default): the exponents then add 1/128 to the bytes of 8-bit words at most."""

Rounding = Literal["nearest", "unbiased"]
"""How gradients become words; see `OptincState`."""


class OptincState:
    """What the hook of one model keeps between steps.

    Args:
        model: The model in `DistributedDataParallel`, whose ranks are the chip's servers.
        chip: The chip; or a file of one, a `.function.npz` of `optinc build` or a network's weights.
        block: Gradients that share an exponent.
        traffic: Where bytes are counted; a new count by default.
        rounding: Of gradients to words. "nearest": as in the paper, so that the average is low by what the chip drops.
            "unbiased": words are rounded higher by as much (`Chip.offset`), so that the average is right in the mean;
            gradients of 0 stay 0.

    Raises:
        InputError: Model, ranks and chip do not fit; raised on every rank.
        CommunicationError: A rank was lost.
    """

    def __init__(
        self,
        model: DistributedDataParallel,
        chip: Chip | str | Path,
        block: int = BLOCK,
        traffic: Traffic | None = None,
        rounding: Rounding = "nearest",
    ) -> None:
        wrapped = isinstance(model, DistributedDataParallel)
        with together(model.process_group if wrapped else None):
            if not wrapped:
                raise InputError(f"the model is a {type(model).__name__}: wrap it in DistributedDataParallel first")
            validate_type("chip", chip, Chip | str | Path)
            self.chip = chip if isinstance(chip, Chip) else read_chip(chip)
            if isinstance(block, bool) or not isinstance(block, int) or block < 1:
                raise InputError(f"block = {block!r} gradients that share an exponent: give a whole number from 1")
            validate_type("traffic", traffic, Traffic | None)
            validate_type("rounding", rounding, Rounding)
        self.group: dist.ProcessGroup = model.process_group
        text = f"{self.chip.source} {self.chip.bits} bits, blocks of {block}, {rounding} rounding, {self.chip.digest}"
        same_everywhere("chip", text, "give every rank the same chip, block and rounding", self.group)
        self.rank, self.world = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.world != self.chip.servers:
            raise InputError(
                f"{self.chip.source} averages {self.chip.servers} servers, the job has {self.world} ranks: start "
                f"{self.chip.servers}, or take a chip of {self.world} servers"
            )
        same_parameters(model.module, self.group)
        self.block = block
        self.offset = self.chip.offset(self.rank) if rounding == "unbiased" else 0.0
        self.traffic = traffic or Traffic()
        self.draws = 0
        self._names = names_of(model.module)
        self._groups = _groups(self.chip, self.group)
        self._tables: dict[torch.device, list[torch.Tensor | None]] = {}
        self._scratch: dict[tuple[torch.device, int], torch.Tensor] = {}

    def average(self, bucket: GradBucket) -> None:
        """Replace a bucket's gradients by what the chip makes of all ranks' ones.

        Args:
            bucket: The bucket, of any type of floats; the words are made of float32.

        Raises:
            InputError: Gradients are NaN, infinite or sparse; raised on every rank, with the parameters' names.
            CommunicationError: A rank was lost; the gradients are then of no use.
        """
        refuse_sparse(bucket, self._names)
        gradients = bucket.buffer()
        if not len(gradients):  # of parameters without numbers, on all ranks alike
            return
        values = gradients.to(torch.float32)
        what = f"bucket {bucket.index()}"
        exponents = codec.block_exponents(values, self.block)
        with communicating(f"the exponents of {what}", self.group):
            dist.all_reduce(exponents, dist.ReduceOp.MAX, group=self.group)
        self.traffic.side += ring_bytes(len(exponents), self.world)
        if int(exponents.max()) >= codec.TOO_LARGE:
            found = unusable(bucket, self._names, lambda values: values.to(torch.float32).abs() < codec.LIMIT)
            refuse_gradients(f"NaN, infinite or above {codec.LIMIT:.1e}", found, self.group)
        step, inverse = codec.steps(exponents, self.chip.bits)
        codes = self._through_chip(values, inverse, f"the words of {what}")
        self._read(codes, step, values)
        if values is not gradients:
            # a word's lowest value is a step beyond what float16 ends with
            most = min(torch.finfo(gradients.dtype).max, torch.finfo(values.dtype).max)
            gradients.copy_(values.clamp_(-most, most))

    def _through_chip(self, values: torch.Tensor, inverse: torch.Tensor, what: str) -> torch.Tensor:
        """The index at the last level, of every gradient."""
        chip, device = self.chip, values.device
        codes = self._codes(0, values)
        position = self.rank % chip.levels[0].units if len(chip.places) > 1 else 0
        codec.encode(values, inverse, self.block, chip.bits, chip.places[position], codes, self.offset)
        self.traffic.payload += -(-len(values) * chip.bits // 8)
        self._add_up(0, codes, what)
        for below, level in enumerate(chip.levels[:-1]):
            upper = self._codes(below + 1, values)
            codec.onward(codes, level, self._table(below, device), upper)
            codes = upper
            self._add_up(below + 1, codes, what)
        return codes

    def _add_up(self, level: int, codes: torch.Tensor, what: str) -> None:
        """Sum codes over the servers of this rank's unit, as 32-bit integers: no sum reaches into its neighbour's."""
        packed = self._scratch[codes.device, level][: -(-codes.nbytes // 4)]
        with communicating(what, self.group):
            dist.all_reduce(packed, group=self._groups[level])
        self.traffic.stand_in += ring_bytes(packed.nbytes, self.chip.levels[level].units)

    def _codes(self, level: int, values: torch.Tensor) -> torch.Tensor:
        """Room for the codes of a level, kept between steps."""
        kind = codec.code_type(self.chip.levels[level], values.device)
        size = -(-len(values) * kind.itemsize // 4)
        room = self._scratch.get((values.device, level))
        if room is None or len(room) < size:
            room = torch.zeros(size, dtype=torch.int32, device=values.device)
            self._scratch[values.device, level] = room
        return room[:size].view(kind)[: len(values)]

    def _table(self, level: int, device: torch.device) -> torch.Tensor | None:
        """What this rank reads of a level, on its device."""
        if device not in self._tables:
            rows = []
            for each in self.chip.levels:
                reader = self.rank % each.units if each.outputs is not None and len(each.outputs) > 1 else 0
                rows.append(None if each.outputs is None else torch.from_numpy(each.outputs[reader]).to(device))
            self._tables[device] = rows
        return self._tables[device][level]

    def _read(self, codes: torch.Tensor, step: torch.Tensor, out: torch.Tensor) -> None:
        """Gradients of indices, with the errors of the chip's histogram."""
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
    """Average a bucket's gradients through the chip: `ddp.register_comm_hook(state, optinc_hook)`.

    Args:
        state: The model's.
        bucket: Its gradients.

    Raises:
        InputError: See `OptincState.average`.
        CommunicationError: Likewise.
    """
    state.average(bucket)
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class Optinc(Scheme):
    """Training over the chip.

    Args:
        chip: The chip; or a file of one.
        block: Gradients that share an exponent.
        group: The ranks; all by default.
        rounding: Of gradients to words; see `OptincState`.
    """

    name = "OptINC"

    def __init__(
        self,
        chip: Chip | str | Path,
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
        """The model in `DistributedDataParallel`, with the hook; see `Scheme.wrap`."""
        same_parameters(model, self.group)
        wrapped = DistributedDataParallel(model, process_group=self.group)
        state = OptincState(wrapped, self.chip, self.block, self.traffic, self.rounding)
        wrapped.register_comm_hook(state, optinc_hook)
        return wrapped


def read_chip(path: str | Path) -> Chip:
    """The chip of a file.

    Args:
        path: A `.function.npz` for the extracted chip, other files for a network's weights.

    Raises:
        InputError: The file is missing, damaged, or neither.
    """
    if str(path).endswith(".function.npz"):
        return table_chip(path)
    return network_chip(Onn.load(path))


def _groups(chip: Chip, group: dist.ProcessGroup) -> list[dist.ProcessGroup]:
    """Per level, the ranks whose codes are added up with this one's.

    In a cascade of units of N servers, rank u·N + s is server s of unit u; at level 2, the servers of the same place s
    stand in for their units.
    """
    if len(chip.levels) == 1:
        return [group]
    if dist.get_world_size(group) != dist.get_world_size():
        raise InputError("a cascade takes all ranks of the job: leave the model's process group out")
    units, servers = chip.levels[1].units, chip.levels[0].units
    ranks = np.arange(units * servers).reshape(units, servers)
    groups = []
    for rows in (ranks, ranks.T):
        # every rank makes every group, in the same order
        made = [dist.new_group(row) for row in rows.tolist()]
        groups += [each for row, each in zip(rows, made, strict=True) if dist.get_rank() in row]
    return groups
