"""The corpus: small files of every kind, all written by the project itself."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import klayout.db as kdb
import numpy as np
import yaml

from optinc_pdk.averaging import Averaging
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.networks.weight_files import bundled_weights
from optinc_pdk.options import BuildOptions

REPOSITORY = Path(__file__).resolve().parents[3]
CARDS = REPOSITORY / "components"
CELLS = REPOSITORY / "tests" / "cells" / "reference"
CELL_NAMES = ("straight", "mmi2x2", "phase_shifter", "taper")
WEIGHTS_BESIDE = "w.onnx.data"
"""File of eight weights beside an .onnx file."""
PARTS = (
    *("", "0", "1", "2", "3", "10", "fc", "fc1", "fc2", "module", "_orig_mod", "model", "encoder", "decoder", "attn"),
    *("weight", "bias", "kernel", "running_mean", "running_var", "num_batches_tracked", "parametrizations", "lora_A"),
)
"""Parts of the names of tensors."""


@dataclass(frozen=True)
class Chip:
    """Files of a small chip.

    Attributes:
        weights: Its network.
        gds: Its layout.
        netlist: Its netlist.
        bias: Its bias.
        report: The report of its build.
        function: Its function table.
    """

    weights: bytes
    gds: bytes
    netlist: bytes
    bias: bytes
    report: bytes
    function: bytes


def smallest() -> AveragingNetwork:
    """One symbol of two servers through one hidden unit; the offset rounds the average down."""
    return AveragingNetwork(
        (Layer(np.ones((1, 1)), np.array([-0.25])), Layer(np.ones((1, 1)), np.zeros(1))), Averaging(2, 2, 1)
    )


def blocks() -> AveragingNetwork:
    """One symbol of two servers, distributed to two units, with blocks."""
    layers = (Layer(np.ones((2, 1)), np.array([0.0, 0.1])), Layer(np.full((1, 2), 0.5), np.zeros(1)))
    return AveragingNetwork(
        layers, Averaging(2, 2, 1), ("svd", ("approx", 1)), {"recipe": "fuzz", "score": 1.0}, "clipped_relu"
    )


def build_chip(onn: AveragingNetwork, folder: Path) -> Chip:
    """Build the chip of a network.

    Raises:
        RuntimeError: A check of the chip fails.
    """
    from optinc_pdk.pipeline.building import build

    built = build(onn, folder, BuildOptions(name="fuzz"))
    if not built.passed:
        raise RuntimeError("the chip of the corpus fails")
    onn.save(folder / "fuzz.npz")
    endings = (".npz", ".gds", ".pic.yml", ".bias.yml", ".report.json", ".function.npz")
    return Chip(*((folder / f"fuzz{ending}").read_bytes() for ending in endings))


def drawn_circuit(folder: Path) -> tuple[list[bytes], bytes]:
    """Netlists of drawn circuits: one of gdsfactory with a hierarchy, and a schematic with routes and an array.

    Args:
        folder: Folder for a file.

    Returns:
        The netlists, and the layout of the first.
    """
    import gdsfactory as gf

    from optinc_pdk import active_pdk

    with active_pdk():
        top = gf.Component()
        heated, join = top << gf.get_component("straight_heater_metal"), top << gf.get_component("mmi2x2")
        join.connect("o2", heated["o2"])
        ring = top << gf.get_component("ring_single", gap=0.2, radius=15.0, length_x=2.0, length_y=1.0)
        ring.connect("o1", join["o3"])
        ends = (heated["o1"], join["o1"], join["o4"], ring["o2"])
        for number, port in enumerate(ends):
            end = top << gf.get_component("terminator" if number in (1, 2) else "grating_coupler")
            end.connect("o1", port)
            if number == 0:
                top.add_port("in", port=end["o2"])
        data = top.get_netlist(recursive=True, on_dangling_port="ignore")
        top.write_gds(folder / "drawn.gds", with_metadata=False)
    schematic = {
        "instances": {
            "fibres": {
                "component": "grating_coupler",
                "array": {"columns": 1, "rows": 2, "column_pitch": 0.0, "row_pitch": 127.0},
            },
            "heater": {"component": "phase_shifter", "settings": {"length_um": 80.0}},
            "pad": {"component": "pad"},
            "bend": {"component": "bend_euler", "info": {"length": 16.5}},
        },
        "placements": {
            "fibres": {"x": 0.0, "y": 5.0, "rotation": 90, "mirror": True},
            "heater": {"x": "bend,o2", "y": 0.0, "dx": 1.0},
        },
        "connections": {"bend,o1": "fibres<0.0>,o1"},
        "routes": {"optical": {"links": {"heater,o1": "bend,o2", "heater,o2": "fibres<0.1>,o1"}}},
        "nets": [{"p1": "pad,e1", "p2": "heater,e1"}],
        "ports": {"in": "fibres<0.0>,o2", "drive": "pad,e1"},
    }
    netlists = [yaml.safe_dump(each, sort_keys=False).encode() for each in (data, schematic)]
    return netlists, (folder / "drawn.gds").read_bytes()


def weights_npz(folder: Path) -> list[bytes]:
    """Weight files of the project's own format."""
    files = [bundled_weights().read_bytes()]
    for onn in (smallest(), blocks()):
        onn.save(folder / "w.npz")
        files.append((folder / "w.npz").read_bytes())
    return files


def weights_safetensors(folder: Path) -> list[bytes]:
    """The same networks as .safetensors."""
    from safetensors.numpy import save

    files = []
    for kind in (np.float64, np.float32, np.float16):
        tensors = {}
        for i, layer in enumerate(blocks().layers):
            tensors[f"{2 * i}.weight"], tensors[f"{2 * i}.bias"] = layer.weight.astype(kind), layer.bias.astype(kind)
        files.append(save(tensors, {"activation": "clipped_relu" if kind is np.float32 else "relu"}))
    first, second = blocks().layers
    tensors = {"params/Dense_0/kernel": first.weight.T.copy(), "params/Dense_1/kernel": second.weight.T.copy()}
    files.append(save(tensors | {"params/Dense_0/bias": first.bias}, {"activation": "relu"}))
    tensors = {"module.net.0.weight": first.weight, "module.net.3.weight": second.weight}
    tensors |= {f"module.net.1.{part}": np.ones(2) for part in ("weight", "bias", "running_mean", "running_var")}
    tensors["module.net.1.num_batches_tracked"] = np.array(3)
    return [*files, save(tensors, {"activation": "relu"})]


def weights_onnx(folder: Path) -> list[bytes]:
    """The same networks as .onnx: Gemm with attributes, MatMul, Relu, Clip with constants and attributes; all nodes."""
    from onnx import TensorProto, helper, numpy_helper

    first, second = blocks().layers
    files = []
    for form in range(3):
        w, v = first.weight.astype(np.float32), second.weight.astype(np.float32)
        stored = {"w": w, "a": first.bias.astype(np.float32), "v": v, "b": second.bias.astype(np.float32)}
        if form == 1:
            stored = {"w": w.T.copy(), "v": v.T.copy()}
        clip = {
            0: [helper.make_node("Relu", ["h"], ["r"])],
            1: [helper.make_node("Clip", ["h"], ["r"], min=0.0, max=1.0)],
            2: [
                helper.make_node("Constant", [], ["low"], value_float=0.0),
                helper.make_node("Constant", [], ["high"], value=numpy_helper.from_array(np.float32(1.0), "high")),
                helper.make_node("Clip", ["h", "low", "high"], ["r"]),
            ],
        }[form]
        if form == 1:
            nodes = [
                helper.make_node("MatMul", ["x", "w"], ["h"]),
                *clip,
                helper.make_node("MatMul", ["r", "v"], ["y"]),
            ]
        else:
            nodes = [
                helper.make_node("Gemm", ["x", "w", "a"], ["h"], transB=1, alpha=1.0, beta=1.0),
                *clip,
                helper.make_node("Gemm", ["r", "v", "b"], ["y"], transB=1),
            ]
        graph = helper.make_graph(
            nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 1])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])],
            [numpy_helper.from_array(array, name) for name, array in stored.items()],
        )
        files.append(helper.make_model(graph).SerializeToString())
    return [*files, _exported(first, second), _classifier()]


def _exported(first: Layer, second: Layer) -> bytes:
    """A .onnx file with the other nodes that exporters write around layers, and a function."""
    from onnx import TensorProto, helper, numpy_helper

    stored = {"w": first.weight, "a": first.bias, "v": second.weight.T, "b": second.bias, "one": np.ones(1)}
    stored |= {"m": np.array([-1]), "n": np.ones(first.outputs)}
    relu6 = helper.make_function(
        "local", "relu6", ["h"], ["r"], [helper.make_node("Clip", ["h"], ["r"])], [helper.make_opsetid("", 20)]
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=0, end=1),
        helper.make_node("Concat", ["s", "m"], ["k"], axis=0),
        helper.make_node("Reshape", ["x", "k"], ["i"]),
        helper.make_node("Cast", ["i"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["c", "one"], ["d"]),
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["d", "t"], ["e"]),
        helper.make_node("Add", ["a", "e"], ["f"]),
        helper.make_node("BatchNormalization", ["f", "n", "n", "n", "n"], ["g"], epsilon=0.1),
        helper.make_node("HardSigmoid", ["g"], ["h"], alpha=0.25),
        helper.make_node("relu6", ["h"], ["r"], domain="local"),
        helper.make_node("Dropout", ["r"], ["o"]),
        helper.make_node("Gemm", ["o", "v", "b"], ["l"]),
        helper.make_node("Softmax", ["l"], ["p"], axis=1),
        helper.make_node("ArgMax", ["p"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=[relu6]).SerializeToString()


def _classifier() -> bytes:
    """A .onnx file with weights beside it and the nodes that skl2onnx writes."""
    from onnx import TensorProto, helper, numpy_helper

    beside = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 2], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", WEIGHTS_BESIDE), ("offset", "0"), ("length", "32")):
        beside.external_data.add(key=key, value=value)
    learned = "ai.onnx.ml"
    nodes = [
        helper.make_node("Scaler", ["x"], ["s"], domain=learned, offset=[0.5], scale=[2.0]),
        helper.make_node("MatMul", ["s", "w"], ["m"]),
        helper.make_node("Squeeze", ["m", "q"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("LinearRegressor", ["r"], ["g"], domain=learned, coefficients=[1.0] * 4, targets=2),
        helper.make_node("Relu", ["g"], ["c"]),
        helper.make_node(
            "LinearClassifier",
            ["c"],
            ["l", "t"],
            domain=learned,
            coefficients=[1.0, 2.0, -1.0, -2.0],
            intercepts=[0.5, -0.5],
            classlabels_ints=[0, 1],
            post_transform="LOGISTIC",
        ),
        helper.make_node("Normalizer", ["t"], ["p"], domain=learned, norm="L1"),
        helper.make_node("Slice", ["p", "k0", "k1", "k1"], ["a"]),
        helper.make_node("Slice", ["p", "k1", "k2", "k1"], ["b"]),
        helper.make_node("Softmax", ["p"], ["o"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "labo"],
        [
            beside,
            numpy_helper.from_array(np.array([], dtype=np.int64), "q"),
            *(numpy_helper.from_array(np.array([i]), f"k{i}") for i in range(3)),
        ],
    )
    return helper.make_model(graph).SerializeToString()


def matrices_text() -> list[bytes]:
    """Matrices as text with every separator."""
    matrix = np.array([[0.5, -1.0, 2e-3], [0.25 - 1e-3j, 1j, -3.0]])
    files = []
    for delimiter in (",", ";", "\t", " "):
        buffer = io.BytesIO()
        np.savetxt(buffer, matrix, delimiter=delimiter, header="m")
        files.append(buffer.getvalue())
    return [*files, b"1 + 2i  3 -4 % rest\r\n\r\n-j .5 1e-3\r\n", b"\xef\xbb\xbf% m\n(1,2);(0,-1e-3)\n2im;-4\n"]


def matrices_mat() -> list[bytes]:
    """Matrices as MATLAB's files: full and sparse, real and complex."""
    import scipy.io
    import scipy.sparse

    full = np.array([[0.5, -1.0, 0.0], [0.25 - 1e-3j, 1j, -3.0]])
    files = []
    for matrix in (full, full.real, scipy.sparse.csc_matrix(full), scipy.sparse.csc_matrix(full != 0)):
        buffer = io.BytesIO()
        scipy.io.savemat(buffer, {"A": matrix})
        files.append(buffer.getvalue())
    return files


def layouts(folder: Path) -> list[bytes]:
    """GDS2 files: cells of the project, with a label, a path and an array of instances."""
    return [_saved(_layout(name), folder / "a.gds") for name in CELL_NAMES]


def layouts_oasis(folder: Path) -> list[bytes]:
    """The same layouts as OASIS."""
    return [_saved(_layout(name), folder / "a.oas") for name in CELL_NAMES]


def _layout(name: str) -> kdb.Layout:
    layout = kdb.Layout()
    layout.read(str(CELLS / f"{name}.gds"))
    cell = layout.top_cell()
    top = layout.create_cell("top")
    top.insert(
        kdb.CellInstArray(
            cell.cell_index(), kdb.Trans(1, True, 1000, 0), kdb.Vector(0, 90_000), kdb.Vector(90_000, 0), 2, 2
        )
    )
    top.insert(kdb.CellInstArray(cell.cell_index(), kdb.ICplxTrans(1.0, 30.0, False, -90_000, 0)))
    layer = layout.layer(41, 0)
    top.shapes(layer).insert(kdb.Path([kdb.Point(0, 0), kdb.Point(0, 50_000), kdb.Point(9000, 50_000)], 4000))
    top.shapes(layout.layer(100, 0)).insert(kdb.Text("label", kdb.Trans(0, False, 10, 10)))
    top.shapes(layer).insert(kdb.Box(0, 0, 80_000, 80_000))
    return layout


def _saved(layout: kdb.Layout, path: Path) -> bytes:
    layout.write(str(path))
    return path.read_bytes()


def touchstone(ports: int) -> list[bytes]:
    """Touchstone files of passive devices, in all number formats."""
    from optinc_pdk.models.measured_data import touchstone_text

    s = 0.5 * np.eye(ports)[::-1] * np.exp(1j * np.arange(3))[:, np.newaxis, np.newaxis]
    text = touchstone_text(np.array([1540.0, 1550.0, 1560.0]), s, [f"o{i + 1}" for i in range(ports)])
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("!"))
    rows = "\n".join(f"19{i}.5 " + " ".join(["-10 45.0"] * ports**2) for i in range(3))
    return [
        text.encode(),
        plain.encode(),
        f"# THZ S DB R 50\n{rows}\n".encode(),
        f"# GHz S MA\n{rows}\n".replace("-10", "0.1").encode(),
    ]


def s_matrices(folder: Path) -> list[bytes]:
    """S-matrices of one block as ``optinc simulate`` writes them."""
    buffer = io.BytesIO()
    s = 0.5 * np.eye(2, dtype=complex)[::-1] * np.ones((3, 1, 1))
    np.savez(
        buffer,
        **{"wavelengths_nm": np.array([1540.0, 1550, 1560]), "blocks.0.s": s, "blocks.0.ports": np.array(["o1", "o2"])},
    )
    return [buffer.getvalue()]


def yaml_cards(*patterns: str) -> list[bytes]:
    """Cards of the package whose paths in ``components/`` match patterns."""
    return [path.read_bytes() for pattern in patterns for path in sorted(CARDS.glob(pattern))]


def short_rules(devices: bool = True) -> bytes:
    """A rule file with the first rule of every kind.

    Args:
        devices: Whether rules that refer to device cards are included.
    """
    data = yaml.safe_load((CARDS / "soi220" / "rules.yml").read_text(encoding="utf-8"))
    kinds: dict[str, object] = {}
    for rule in data["rules"]:
        if devices or "devices" not in rule:
            kinds.setdefault(rule["kind"], rule)
    return yaml.safe_dump(data | {"rules": list(kinds.values())}, sort_keys=False).encode()


def finished_samples() -> bytes:
    """The file of finished samples of a yield run."""
    outcome = {
        "inputs": 16,
        "exact": 15,
        "words": 32,
        "wrong": 1,
        "margin": 0.1,
        "saturated": 0,
        "fault": "",
        "errors": {"1": 1},
    }
    lines = [
        {"schema": 2, "header": {"seed": 1, "chip": {"name": "fuzz"}}},
        {"study": "all", "imperfection": "", "sample": 0, "result": {"tuned": outcome}},
        {"study": "alone", "imperfection": "coupler", "sample": 1, "result": {"tuned": outcome}},
        {"study": "tolerance", "imperfection": "coupler", "sample": 0, "result": {"factor": 1.5}},
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def process_card() -> bytes:
    """The card of a whole process, without comments and names of sources."""
    return yaml.safe_dump(
        yaml.safe_load((CARDS / "soi220" / "process.yml").read_text(encoding="utf-8")), sort_keys=False
    ).encode()


def system_cards() -> list[bytes]:
    """Cards of a system of every kind, under one name."""
    names = ("fat_tree", "wdm_ring", "optinc_star_4bit_soi220", "sharp")
    files = yaml_cards(*(f"systems/{name}.yml" for name in names))
    return [yaml.safe_dump(yaml.safe_load(file) | {"name": "optinc_star"}, sort_keys=False).encode() for file in files]


def golden() -> bytes:
    """Recognition polygons of a device."""
    return (CARDS / "soi220" / "golden" / "taper.json").read_bytes()
