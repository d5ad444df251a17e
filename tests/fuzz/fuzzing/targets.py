"""The targets: every reader, with its corpus, the mutations that fit its files, and how it is called."""

from __future__ import annotations

import json
import pickle
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml

from fuzzing import archives, corpus, gds_records, messages, octets, pytorch, trees

Mutator = Callable[[Random, Sequence[bytes]], bytes]
"""Returns one input for a random state and the files of the corpus."""
Read = Callable[[Path], object]


@dataclass(frozen=True)
class Target:
    """A reader that is fuzzed.

    Attributes:
        name: Name in the table.
        file: Name of the file that it reads.
        corpus: Unchanged files, which it accepts.
        mutators: Mutations, chosen at random; one that is listed twice is chosen twice as often.
        read: Reads the file at a path. It returns, or raises an ``InputError``.
        share: Part of all inputs, relative to the other targets.
        seconds: CPU time within which an input must be read.
    """

    name: str
    file: str
    corpus: tuple[bytes, ...]
    mutators: tuple[Mutator, ...]
    read: Read
    share: float
    seconds: float = 10.0

    def input(self, seed: int, number: int) -> bytes:
        """The input of a number, which depends on nothing else than the seed and the corpus."""
        rng = Random(f"{self.name} {seed} {number}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as those of NumPy's conversions
            return rng.choice(self.mutators)(rng, self.corpus)


def _bytes(rng: Random, files: Sequence[bytes]) -> bytes:
    return octets.mutate_bytes(rng, rng.choice(files))


def _text(rng: Random, files: Sequence[bytes]) -> bytes:
    return octets.mutate_text(rng, rng.choice(files))


def _archive(rng: Random, files: Sequence[bytes]) -> bytes:
    return archives.mutate_archive(rng, archives.split(rng.choice(files)))


def _records(rng: Random, files: Sequence[bytes]) -> bytes:
    return gds_records.mutate_records(rng, gds_records.split(rng.choice(files)))


def _onnx(rng: Random, files: Sequence[bytes]) -> bytes:
    import onnx

    model = onnx.load_model_from_string(rng.choice(files))
    messages.mutate_message(rng, model)
    return model.SerializeToString()


def _mat(rng: Random, files: Sequence[bytes]) -> bytes:
    """Bytes of a variable that is compressed afterwards."""
    data = rng.choice(files)
    packed = zlib.compress(octets.mutate_bytes(rng, data[128:]))
    return data[:128] + (15).to_bytes(4, "little") + len(packed).to_bytes(4, "little") + packed


def _safetensors(rng: Random, files: Sequence[bytes]) -> bytes:
    """Header changed as a tree, or bytes of the data."""
    data = rng.choice(files)
    size = int.from_bytes(data[:8], "little")
    header = trees.mutate_tree(rng, json.loads(data[8 : 8 + size]))
    text = trees.json_bytes(header)
    if rng.random() < 0.2:
        text = octets.mutate_text(rng, text)
    length = len(text) if rng.random() < 0.95 else rng.choice((0, 1, len(text) + 8, 2**63, 2**32))
    return length.to_bytes(8, "little") + text + data[8 + size :]


def _names(rng: Random, files: Sequence[bytes]) -> bytes:
    """Parts of the names of tensors."""
    data = rng.choice(files)
    size = int.from_bytes(data[:8], "little")
    header = {}
    for name, tensor in json.loads(data[8 : 8 + size]).items():
        parts = name.split(rng.choice("./"))
        if name != "__metadata__" and rng.random() < 0.4:
            parts[rng.randrange(len(parts))] = rng.choice(corpus.PARTS)
        header[rng.choice("...../").join(parts)] = tensor
    text = trees.json_bytes(header)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def _tree(parse: Callable[[bytes], Any], dump: Callable[[Any], bytes]) -> Mutator:
    """Mutator of trees of one format; parsed files are kept."""
    kept: dict[bytes, bytes] = {}

    def mutate(rng: Random, files: Sequence[bytes]) -> bytes:
        data = rng.choice(files)
        if data not in kept:
            kept[data] = pickle.dumps(parse(data))
        # a pickle is read faster than YAML, and gives every input a tree of its own
        changed = dump(trees.mutate_tree(rng, pickle.loads(kept[data])))
        return octets.mutate_text(rng, changed) if rng.random() < 0.1 else changed

    return mutate


def _lines(rng: Random, files: Sequence[bytes]) -> bytes:
    """Lines of JSON, of which some are changed."""
    rows = [
        trees.mutate_tree(rng, json.loads(line)) if rng.random() < 0.4 else json.loads(line)
        for line in rng.choice(files).splitlines()
    ]
    return b"\n".join(map(trees.json_bytes, rows)) + b"\n" * (rng.random() < 0.9)


def _safe_load(data: bytes) -> Any:
    return yaml.load(data, Loader=yaml.CSafeLoader)


YAML = (_tree(_safe_load, trees.yaml_bytes),) * 3 + (_text, _text, _bytes)
JSON = (_tree(json.loads, trees.json_bytes),) * 3 + (_text, _bytes)
NPZ = (_archive, _archive, _archive, _bytes)


def _weights(path: Path) -> object:
    from optinc_pdk.networks.network import load_network

    return load_network(path).mzis


def _matrix(path: Path) -> object:
    from optinc_pdk.matrices import MatrixTarget

    return MatrixTarget.load(path)


def _netlist(path: Path) -> object:
    from optinc_pdk.circuit import check_complete, flatten, read_netlist
    from optinc_pdk.cli.paths import errors_naming

    circuit = read_netlist(path)
    with errors_naming(path):
        check_complete(circuit)
        return flatten(circuit)


@dataclass(frozen=True)
class _Drawn:
    """Reads the netlist of a drawn circuit, compares it with a layout, and simulates it.

    Attributes:
        netlist: Netlist of the layout.
        layout: Content of the layout file.
        kept: The extraction of the layout, after the first comparison.
    """

    netlist: bytes
    layout: bytes
    kept: list[Any] = field(default_factory=list)

    def extraction(self, folder: Path) -> Any:
        """The extraction of the layout, with the labels of its netlist."""
        from optinc_pdk.cards import load_process
        from optinc_pdk.circuit import read_reference
        from optinc_pdk.signoff.lvs.label_binding import extract_for

        if not self.kept:
            netlist, layout = folder / "drawn.pic.yml", folder / "drawn.gds"
            netlist.write_bytes(self.netlist)
            layout.write_bytes(self.layout)
            process = load_process()
            self.kept.append(extract_for(read_reference(netlist, process, "drawn"), layout, process)[1])
        return self.kept[0]

    def __call__(self, path: Path) -> object:
        from optinc_pdk.cards import load_process
        from optinc_pdk.circuit import PlacedCircuit, read_reference
        from optinc_pdk.cli.paths import errors_naming
        from optinc_pdk.signoff.lvs.comparison import compare
        from optinc_pdk.signoff.lvs.label_binding import bind_labels, named_circuit
        from optinc_pdk.simulate.s_parameters.scattering import set_scattering

        extraction, process = self.extraction(path.parent), load_process()
        found = read_reference(path, process, "fuzz")
        with errors_naming(path):
            if not isinstance(found, PlacedCircuit):
                return found
            compare(bind_labels(found, (), process).reference, extraction, process)
            if np.isnan(found.circuit.net_length_um).any():
                # routes of a schematic, whose lengths only a layout states, cannot be simulated
                return found
            return set_scattering(named_circuit(found, process), {}, 1550.0, process)


def _bias(path: Path) -> object:
    from optinc_pdk.cards import load_process
    from optinc_pdk.simulate.heater_drive import read_drive

    return read_drive(path, load_process())


def _device(path: Path) -> object:
    """A device card, as the loader of a process reads it."""
    from optinc_pdk.cards import loader

    return loader._device(path)


def _rules(path: Path) -> object:
    from optinc_pdk.cards import load_process, load_rules

    return load_rules(path, load_process().gds_layers)


def _process(path: Path) -> object:
    """A process card beside the corpus's rules and devices."""
    from optinc_pdk.cards import load_process, loader

    loader._loaded_process.cache_clear()
    return load_process(str(path.parent))


def _system(path: Path) -> object:
    from optinc_collective.interconnect import load_system

    return load_system(str(path))


def _golden(path: Path) -> object:
    from optinc_pdk.cards import load_process
    from optinc_pdk.extract.golden_devices import device_symmetries, read_golden

    process = load_process().model_copy(update={"folders": (path.parent.parent,)})
    return read_golden(process), device_symmetries(process)


def _layout(path: Path) -> object:
    from optinc_pdk.extract.layout_reader import read_layout

    return read_layout(path)


def _measured(path: Path) -> object:
    from optinc_pdk.models.measured_data import read_measured

    return read_measured(path)


def _function(path: Path) -> object:
    from optinc_collective.schemes._chips import table_chip

    return table_chip(path)


def _samples(path: Path) -> object:
    from optinc_pdk.studies.montecarlo.sample_records import Records

    with Records(path, {"seed": 1, "chip": {"name": "fuzz"}}, resume=True) as records:
        return records.done


@dataclass(frozen=True)
class _Report:
    """Reads the report beside a layout, from which ``optinc yield`` takes the task.

    Attributes:
        chip: The files that the report lists.
    """

    chip: corpus.Chip

    def __call__(self, path: Path) -> object:
        from optinc_pdk.cli.chip_inputs import stated_words
        from optinc_pdk.cli.yield_command import _check_report
        from optinc_pdk.io.chip_files import ChipFiles

        paths = [path.with_name(f"fuzz{ending}") for ending in (".gds", ".pic.yml", ".bias.yml")]
        for file, data in zip(paths, (self.chip.gds, self.chip.netlist, self.chip.bias), strict=True):
            if not file.exists():
                file.write_bytes(data)
        _check_report(ChipFiles(*paths))
        return stated_words(paths[0])


def targets(chip: corpus.Chip, folder: Path) -> dict[str, Target]:
    """All readers by name.

    Args:
        chip: Files of a chip.
        folder: Folder for files that make the corpus.
    """
    netlists = (chip.netlist,)
    drawn, layout = corpus.drawn_circuit(folder)
    devices = tuple(corpus.yaml_cards("soi220/devices/*.yml"))
    names = [path.stem for path in sorted((corpus.CARDS / "soi220" / "devices").glob("*.yml"))]
    found = [
        Target("weights .npz", "w.npz", tuple(corpus.weights_npz(folder)), NPZ, _weights, 19),
        Target(
            "weights .safetensors",
            "w.safetensors",
            tuple(corpus.weights_safetensors(folder)),
            (*(_safetensors,) * 3, _names, _names, _bytes),
            _weights,
            19,
        ),
        Target("weights .onnx", "w.onnx", tuple(corpus.weights_onnx(folder)), (_onnx,) * 3 + (_bytes,), _weights, 19),
        Target("matrix .csv", "m.csv", tuple(corpus.matrices_text()), (_text, _text, _bytes), _matrix, 19),
        Target("matrix .mat", "m.mat", tuple(corpus.matrices_mat()), (_bytes, _mat), _matrix, 19),
        Target("netlist", "n.pic.yml", netlists, YAML, _netlist, 1.5),
        Target("drawn netlist", "d.pic.yml", tuple(drawn), YAML, _Drawn(drawn[0], layout), 1.5),
        Target("bias", "b.bias.yml", (chip.bias,), YAML, _bias, 6),
        *(
            Target(f"device card {n}", f"{n}.yml", (d,), YAML, _device, 0.35)
            for n, d in zip(names, devices, strict=True)
        ),
        Target("rule card", "rules.yml", (corpus.short_rules(),), YAML, _rules, 1),
        Target("process card", "process.yml", (corpus.process_card(),), YAML, _process, 0.7),
        Target("system card", "optinc_star.yml", tuple(corpus.system_cards()), YAML, _system, 3),
        Target("recognition polygons", "golden/taper.json", (corpus.golden(),), JSON, _golden, 5),
        Target("GDS2", "a.gds", tuple(corpus.layouts(folder)), (_records,) * 3 + (_bytes,), _layout, 9),
        # few: every file is first read on trial in a process of its own, which takes a quarter of a second
        Target("OASIS", "a.oas", tuple(corpus.layouts_oasis(folder)), (_bytes,), _layout, 0.1),
        Target("Touchstone .s1p", "m.s1p", tuple(corpus.touchstone(1)), (_text, _text, _bytes), _measured, 6),
        Target("Touchstone .s2p", "m.s2p", tuple(corpus.touchstone(2)), (_text, _text, _bytes), _measured, 12),
        Target("S-matrices .npz", "m.npz", tuple(corpus.s_matrices(folder)), NPZ, _measured, 6),
        Target("function table .npz", "t.function.npz", (chip.function,), NPZ, _function, 3),
        Target(
            "finished samples", "y.jsonl", (corpus.finished_samples(),), (_lines, _lines, _text, _bytes), _samples, 12
        ),
        Target("report", "fuzz.report.json", (chip.report,), JSON, _Report(chip), 4),
    ]
    if find_spec("torch") is not None:
        files = tuple(pytorch.files(corpus.blocks().layers))
        found.append(Target("weights .pt", "w.pt", files, (pytorch.mutate,), pytorch.read, 19))
    return {target.name: target for target in found}


def prepare(folder: Path) -> None:
    """Write the files that readers expect beside theirs into a folder."""
    (folder / "golden").mkdir(parents=True, exist_ok=True)
    (folder / corpus.WEIGHTS_BESIDE).write_bytes(np.arange(8.0, dtype="<f4").tobytes())
    (folder / "devices").mkdir(exist_ok=True)
    (folder / "rules.yml").write_bytes(corpus.short_rules(devices=False))
    (folder / "devices" / "phase_shifter.yml").write_bytes(corpus.yaml_cards("soi220/devices/phase_shifter.yml")[0])


def outcome(target: Target, path: Path) -> BaseException | None:
    """Read a file: None if it is accepted, otherwise the exception."""
    try:
        target.read(path)
    except (Exception, KeyboardInterrupt, SystemExit) as fault:
        return fault
    return None


def by_family(name: str) -> str:
    """Name of a row of the table: all device cards are one row, and so are both sizes of Touchstone files."""
    return {"device": "device card", "Touchstone": "Touchstone"}.get(name.split(" ")[0], name)
