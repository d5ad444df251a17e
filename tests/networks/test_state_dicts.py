"""Files of named tensors: against the module's own forward function; what they leave open is refused."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file
from torch import nn

from optinc_pdk.networks import GeneralNetwork, WeightsError
from optinc_pdk.networks import _torch_files as torch_files
from optinc_pdk.networks.training.modulator_sine import ModulatorSine

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 4))


def sequential(*modules: nn.Module) -> nn.Sequential:
    """A module of float64 with statistics of its BatchNorms that differ from those at the start."""
    net = nn.Sequential(*modules).double().eval()
    for part in net.modules():
        if isinstance(part, nn.BatchNorm1d):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2.0)
    return net


def layer(outputs: int, inputs: int, name: str, bias: bool = True) -> dict[str, Any]:
    tensors = {f"{name}.weight": RNG.normal(size=(outputs, inputs))}
    return tensors | ({f"{name}.bias": RNG.normal(size=outputs)} if bias else {})


def expected(*layers: tuple[Any, Any], x: Any = X) -> Any:
    for i, (weight, bias) in enumerate(layers):
        x = (np.maximum(x, 0.0) if i else x) @ weight.T + bias
    return x


def stored(path: Path, tensors: dict[str, Any]) -> Path:
    save_arrays({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path / "net.safetensors")
    return path / "net.safetensors"


def loaded(path: Path, tensors: dict[str, Any]) -> GeneralNetwork:
    return GeneralNetwork.load(stored(path, tensors), "relu")


def refused(path: Path, *parts: str, activation: Any = "relu") -> str:
    with pytest.raises(WeightsError) as caught:
        GeneralNetwork.load(path, activation)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message and len(message) <= 2000
    for part in parts:
        assert part in message, message
    return message


NETS = {
    "dropout": lambda: sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3, bias=False)),
    "norm before": lambda: sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)),
    "norm behind": lambda: sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 3)),
    "no affine": lambda: sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, affine=False), nn.ReLU(), nn.Linear(4, 4)),
    "norm at the end": lambda: sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.BatchNorm1d(3)),
    "flatten": lambda: sequential(
        nn.Flatten(), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2)
    ),
    "nested": lambda: sequential(
        nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU()), nn.Sequential(nn.Flatten(), nn.Linear(5, 3))
    ),
}


@pytest.mark.parametrize("kind", NETS)
@pytest.mark.parametrize("prefix", ["", "model.", "module.", "_orig_mod.", "module._orig_mod.net."])
def test_modules_are_read_as_they_are_evaluated(kind: str, prefix: str, tmp_path: Path) -> None:
    net = NETS[kind]()
    save_file({prefix + name: each for name, each in net.state_dict().items()}, tmp_path / "net.safetensors")
    network = GeneralNetwork.load(tmp_path / "net.safetensors", "relu")
    np.testing.assert_allclose(network.forward(X), net(torch.tensor(X)).detach(), atol=1e-12)
    assert any("eps 1e-05" in each for each in network.remarks) == ("norm" in kind or kind in ("no affine", "nested"))


def test_hardtanh_and_float32(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Hardtanh(0.0, 1.0), nn.BatchNorm1d(8), nn.Linear(8, 3)).eval()
    save_file(net.state_dict(), tmp_path / "net.safetensors", metadata={"activation": "clipped_relu"})
    network = GeneralNetwork.load(tmp_path / "net.safetensors")
    assert network.activation == "clipped_relu"
    np.testing.assert_allclose(network.forward(X), net(torch.tensor(X).float()).detach(), atol=1e-6)


def test_the_sine_of_a_modulator_is_stated(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 8), ModulatorSine(), nn.BatchNorm1d(8), nn.Linear(8, 3)).double().eval()
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    network = GeneralNetwork.load(tmp_path / "net.safetensors", "sine")
    np.testing.assert_allclose(network.forward(X), net(torch.tensor(X)).detach(), atol=1e-12)
    network.save(tmp_path / "net.npz")
    assert GeneralNetwork.load(tmp_path / "net.npz").activation == "sine"


@pytest.mark.parametrize(
    "names",
    [
        ("fc1", "fc2", "fc10"),
        ("layers.0.linear", "layers.1.linear", "layers.2.linear"),
        ("blocks.2.a", "blocks.10.b", "blocks.11.c"),
        ("m.layers.0", "m.layers.1", "m.layers.2"),
        ("net 1\n\x1b[31m", "net 1\n\x1b[32m", "net 1\n\x1b[33m"),
    ],
)
def test_numbers_in_names_give_the_order_of_square_layers(names: tuple[str, ...], tmp_path: Path) -> None:
    tensors = [layer(4, 4, name) for name in names]
    path = stored(tmp_path, {name: array for each in reversed(tensors) for name, array in each.items()})
    if "\n" in names[0]:
        assert "\x1b" not in refused(path, "several orders", "→")
        return
    np.testing.assert_allclose(
        GeneralNetwork.load(path, "relu").forward(X), expected(*(tuple(each.values()) for each in tensors)), atol=1e-12
    )


@pytest.mark.parametrize(
    "names", [("hidden", "output"), ("classifier.out_proj_in", "classifier.dense"), ("z", "a"), ("decoder", "encoder")]
)
def test_shapes_give_the_order_if_they_allow_one(names: tuple[str, str], tmp_path: Path) -> None:
    first, second = layer(6, 4, names[0]), layer(2, 6, names[1], bias=False)
    network = loaded(tmp_path, first | second)
    np.testing.assert_allclose(network.forward(X), expected(tuple(first.values()), (*second.values(), 0.0)), atol=1e-12)


def test_the_head_of_hugging_face(tmp_path: Path) -> None:
    network = loaded(tmp_path, layer(8, 8, "classifier.dense") | layer(2, 8, "classifier.out_proj"))
    assert network.structure == (8, 8, 2)


def test_kernels_of_flax_are_transposed(tmp_path: Path) -> None:
    first, second = RNG.normal(size=(4, 6)), RNG.normal(size=(6, 6))
    bias = RNG.normal(size=6)
    tensors = {"params.Dense_0.kernel": first, "params.Dense_0.bias": bias, "params.Dense_1.kernel": second}
    network = loaded(tmp_path, tensors)
    np.testing.assert_allclose(network.forward(X), expected((first.T, bias), (second.T, 0.0)), atol=1e-12)
    assert loaded(tmp_path, {name.replace(".", "/"): each for name, each in tensors.items()}).digest == network.digest
    refused(stored(tmp_path, tensors | {"params/Dense_0/bias": bias}), "second tensor")


def test_orders_that_names_and_shapes_leave_open_are_refused_with_both(tmp_path: Path) -> None:
    message = refused(stored(tmp_path, layer(4, 4, "a") | layer(4, 4, "b")), "a → b", "b → a", ".npz")
    assert "number the layers" in message
    parts = [(3, 4, "encoder.0"), (2, 3, "encoder.2"), (3, 2, "decoder.0"), (4, 3, "decoder.2")]
    tensors = {name: array for part in parts for name, array in layer(*part).items()}
    refused(
        stored(tmp_path, tensors),
        "encoder.0 → encoder.2 → decoder.0 → decoder.2",
        "decoder.0 → decoder.2 → encoder.0 → encoder.2",
    )
    # a number and a word without one, numbers of another word, a number with zeros
    for one, other in (("fc", "fc2"), ("fc1", "gc2"), ("fc01", "fc1"), ("1", "a2"), ("n" + "1" * 5000, "n2")):
        refused(stored(tmp_path, layer(4, 4, one) | layer(4, 4, other)), "several orders")


def several(*parts: tuple[int, int, str]) -> dict[str, Any]:
    return {name: array for part in parts for name, array in layer(*part).items()}


@pytest.mark.parametrize("prefix", ["", "model."])
def test_parts_of_several_layers_may_be_networks_of_their_own(prefix: str, tmp_path: Path) -> None:
    actor = [(8, 4, f"{prefix}actor.0"), (4, 8, f"{prefix}actor.2")]
    critic = [(8, 4, f"{prefix}critic.0"), (1, 8, f"{prefix}critic.2")]
    refused(
        stored(tmp_path, several(*actor, *critic)),
        f"({prefix}actor; {prefix}critic)",
        f"({prefix}actor.2 → activation → {prefix}critic.0)",
        f"({prefix}actor.2 → {prefix}critic.0)",
    )
    assert len(loaded(tmp_path, several(*actor, (1, 4, f"{prefix}head"))).layers) == 3


@pytest.mark.parametrize("place", ["{}", "models.{}", "net{}"])
def test_numbered_parts_of_several_layers_are_refused(place: str, tmp_path: Path) -> None:
    names = [f"{place.format(part)}.{i}" for part in (0, 1) for i in (0, 2)]
    both = f"({place.format(0)}; {place.format(1)})"
    refused(stored(tmp_path, several(*[(4, 4, name) for name in names])), both)


def test_numbered_layers_beside_a_part_of_several_are_refused(tmp_path: Path) -> None:
    chain = several((5, 4, "0"), (6, 5, "2"), (7, 6, "ema.0"), (8, 7, "ema.2"))
    refused(stored(tmp_path, chain), "the numbered layers and ema", "(2 → activation → ema.0)")
    assert len(loaded(tmp_path, several((5, 4, "0"), (6, 5, "2"), (7, 6, "head"))).layers) == 3


def test_a_layer_is_called_like_attention(tmp_path: Path) -> None:
    chain = several((4, 4, "fc1"), (4, 4, "fc2"))
    assert loaded(tmp_path, several((6, 4, "inp"), (5, 6, "attn"), (3, 5, "out"))).structure == (4, 6, 5, 3)
    refused(stored(tmp_path, chain | layer(4, 4, "fc3.attn.query")), "attention")


def test_layers_that_form_no_chain_are_refused_with_their_shapes(tmp_path: Path) -> None:
    refused(stored(tmp_path, layer(3, 4, "fc1") | layer(2, 5, "fc2")), "fc1 (3, 4), fc2 (2, 5)", "no single chain")
    # against its numbers
    refused(stored(tmp_path, layer(3, 4, "fc2") | layer(2, 3, "fc1")), "no single chain")
    # two heads
    refused(stored(tmp_path, layer(3, 4, "fc1") | layer(2, 3, "mean") | layer(2, 3, "std")), "no single chain")


@pytest.mark.parametrize("odd", [False, True])
def test_the_search_for_an_order_ends(odd: bool, tmp_path: Path) -> None:
    tensors = {f"layer {chr(1000 + i)}.weight": np.ones((3, 3)) for i in range(200)}
    if odd:
        tensors["last.weight"] = np.ones((5, 4))
    refused(stored(tmp_path, tensors), "no single chain" if odd else "several orders")


def test_ten_thousand_tensors_are_refused(tmp_path: Path) -> None:
    tensors = {
        f"{i}.{part}": np.ones(2 if part == "bias" else (2, 2)) for i in range(5000) for part in ("weight", "bias")
    }
    refused(stored(tmp_path, tensors), "5,000 layers", "500")


NORM = {"weight": np.ones(6), "bias": np.ones(6), "running_mean": np.ones(6), "running_var": np.ones(6)}


def norm(name: str, **changes: Any) -> dict[str, Any]:
    return {f"{name}.{part}": each for part, each in (NORM | changes).items() if each is not None}


@pytest.mark.parametrize(
    ("names", "place"), [(("fc1", "fc2"), "bn1"), (("0", "4"), "3"), (("a.0", "a.3"), "b.1"), (("1", "4"), "0")]
)
def test_batchnorm_without_a_certain_place_is_refused(names: tuple[str, str], place: str, tmp_path: Path) -> None:
    tensors = layer(6, 4, names[0]) | layer(2, 6, names[1]) | norm(place)
    refused(
        stored(tmp_path, tensors), f"layer → {place} → activation", f"layer → activation → {place}", "fuse_linear_bn"
    )


def test_batchnorm_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    both = layer(6, 4, "0") | layer(2, 6, "3")
    for changes, part in (
        ({"running_var": None}, "running_var is missing"),
        ({"running_mean": None}, "running_mean is missing"),
        ({"running_var": -np.ones(6)}, "negative"),
        ({"running_var": np.ones(5)}, "different lengths"),
        ({"running_mean": np.full(6, np.nan)}, "NaN"),
        ({"extra": np.ones(6)}, "extra"),
    ):
        refused(stored(tmp_path, both | norm("1", **changes)), "1: ", part)
    refused(stored(tmp_path, layer(5, 4, "0") | layer(2, 5, "3") | norm("1")), "1: has 6 values for 5 signals")
    # an activation at the end
    refused(stored(tmp_path, layer(6, 6, "0") | layer(6, 6, "2") | norm("4")), "do not say whether it is before")


def test_numbers_without_a_place_for_the_activation_are_refused(tmp_path: Path) -> None:
    for names in (("0", "1"), ("module.0", "module.1")):
        refused(stored(tmp_path, layer(4, 4, names[0]) | layer(4, 4, names[1])), " → ".join((names[0], "activation")))
    refused(stored(tmp_path, layer(4, 4, "a.0") | layer(4, 4, "a.2") | layer(4, 4, "a.3")), "a.2 → a.3")
    refused(stored(tmp_path, layer(6, 4, "a.0") | norm("a.1") | layer(2, 6, "a.2")), "a.0 → a.2")


@pytest.mark.parametrize(
    ("tensors", "parts"),
    [
        ({"norm.weight": np.ones(4), "norm.bias": np.ones(4)}, ("norm: ", "LayerNorm or GroupNorm")),
        ({"LayerNorm_0.scale": np.ones(4), "LayerNorm_0.bias": np.ones(4)}, ("LayerNorm_0: scale",)),
        ({"act.weight": np.ones(1)}, ("act: ", "PReLU")),
        ({"act.weight": np.ones(4)}, ("act: ", "PReLU")),
        ({"conv1.weight": np.ones((2, 1, 3, 3)), "conv1.bias": np.ones(2)}, ("conv1: ", "(2, 1, 3, 3)", "convolution")),
        ({"Conv_0.kernel": np.ones((3, 3, 1, 2))}, ("Conv_0: ", "convolution")),
        ({"word_embeddings.weight": np.ones((10, 4))}, ("word_embeddings: ", "Embedding")),
        ({"Embed_0.embedding": np.ones((10, 4))}, ("Embed_0: ", "Embedding")),
        ({"rnn.weight_ih_l0": np.ones((8, 4)), "rnn.weight_hh_l0": np.ones((8, 2))}, ("rnn: ", "LSTM, GRU or RNN")),
        ({"attn.in_proj_weight": np.ones((12, 4))}, ("attn: ", "attention")),
        # torch.nn.utils.parametrizations.weight_norm stores the bias first
        (
            {"0.bias": np.ones(6), "0.parametrizations.weight.original0": np.ones((6, 1))},
            ("a parametrised weight", "remove the parametrisation"),
        ),
        ({"fc.lora_A.weight": np.ones((1, 4))}, ("fc.lora_A: ", "LoRA", "merge_and_unload")),
        ({"fc.qweight": np.ones((4, 4))}, ("fc: ", "quantised")),
        ({"fc.weight_g": np.ones((4, 1))}, ("fc: ", "parametrised")),
        ({"fc1.Bias": np.ones(4)}, ("fc1: ", "Bias")),
        ({"fc1_bias": np.ones(4)}, ("fc1_bias", "no step that is read")),
        ({"temperature": np.ones(())}, ("temperature",)),
        ({"fc2.bias": np.ones(4)}, ("fc2: weight is missing",)),
        ({"fc2.weight": np.ones((4, 4), dtype=np.int8)}, ("fc2.weight is of type I8 of a quantised layer",)),
        ({"fc2.weight": np.ones((4, 4)), "fc2.bias": np.ones(3)}, ("fc2: bias has 3",)),
    ],
)
def test_other_tensors_are_refused_as_what_they_are(
    tensors: dict[str, Any], parts: tuple[str, ...], tmp_path: Path
) -> None:
    refused(stored(tmp_path, layer(4, 4, "fc1") | tensors), *parts)


def test_prefixes_are_no_evidence_and_counters_are_left_alone(tmp_path: Path) -> None:
    tensors = layer(4, 4, "embedder.attention.0", bias=False) | layer(4, 4, "embedder.attention.2")
    counter = {"embedder.attention.num_batches_tracked": np.array(3)}
    assert loaded(tmp_path, tensors | counter).structure == (4, 4, 4)
    assert loaded(tmp_path, {"weight": np.eye(4), "bias": np.ones(4)}).structure == (4, 4)


def test_the_activation_is_needed_from_two_layers_on(tmp_path: Path) -> None:
    path = stored(tmp_path, layer(4, 4, "fc1") | layer(4, 4, "fc2"))
    command = "optinc task net.safetensors --activation relu -o net_relu.npz"
    refused(path, "does not state the activation", command, 'activation="relu"', "tanh", activation=None)
    assert GeneralNetwork.load(stored(tmp_path, layer(4, 4, "fc1"))).structure == (4, 4)


def saved(path: Path, what: Any, name: str = "net.pt", **options: Any) -> Path:
    torch.save(what, path / name, **options)
    return path / name


@pytest.mark.parametrize(
    ("name", "wrapped", "options"),
    [
        ("net.pt", lambda state: state, {}),
        ("net.pth", lambda state: state, {"_use_new_zipfile_serialization": False}),
        ("pytorch_model.bin", lambda state: {"model_state_dict": state, "epoch": 3}, {}),
        (
            "last.ckpt",
            lambda state: {
                "state_dict": {f"net.{key}": each for key, each in state.items()},
                "hyper_parameters": {"lr": 1e-3},
                "optimizer_states": [{"state": {0: {"step": torch.tensor(1.0)}}}],
            },
            {},
        ),
    ],
)
def test_files_of_pytorch_are_read(name: str, wrapped: Any, options: Any, tmp_path: Path) -> None:
    net = NETS["norm before"]()
    path = saved(tmp_path, wrapped(net.state_dict()), name, **options)
    network = GeneralNetwork.load(path, "relu")
    np.testing.assert_allclose(network.forward(X), net(torch.tensor(X)).detach(), atol=1e-12)


@pytest.mark.parametrize("view", [torch._neg_view(torch.arange(8.0)).view(2, 4), torch.arange(8.0).view(4, 2)[:, 1:]])
def test_views_are_read(view: torch.Tensor, tmp_path: Path) -> None:
    path = saved(tmp_path, {"weight": view, "bias": torch.arange(8.0)[:: 8 // len(view)]})
    (found,) = GeneralNetwork.load(path).layers
    np.testing.assert_array_equal(found.weight, view.numpy(force=True))
    np.testing.assert_array_equal(found.bias, np.arange(len(view)) * (8 // len(view)))


def test_a_value_with_a_stride_is_read(tmp_path: Path) -> None:
    path = saved(tmp_path, {"weight": torch.arange(8.0)[1:2].as_strided((1, 1), (4, 2))})
    assert GeneralNetwork.load(path).layers[0].weight == [[1.0]]


def test_the_order_of_registration_is_used_and_stated(tmp_path: Path) -> None:
    net = nn.Sequential(OrderedDict(z=nn.Linear(4, 4), r=nn.ReLU(), a=nn.Linear(4, 4))).bfloat16()
    network = GeneralNetwork.load(saved(tmp_path, net.state_dict()), "relu")
    np.testing.assert_allclose(network.forward(X), net.double()(torch.tensor(X)).detach(), atol=1e-12)
    assert "z → a" in network.remarks[0]
    # sorted names are no order of registration
    refused(saved(tmp_path, dict(sorted(net.state_dict().items()))), "a → z", "z → a")
    # shapes contradict it
    net = nn.ModuleDict({"last": nn.Linear(6, 2), "first": nn.Linear(4, 6)})
    assert GeneralNetwork.load(saved(tmp_path, net.state_dict()), "relu").structure == (4, 6, 2)


class Trap:
    """Creates a folder if it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (self.mark,))


def test_objects_are_refused_and_never_run(tmp_path: Path) -> None:
    convert = "python -c 'import torch; from safetensors.torch import save_file;"
    refused(saved(tmp_path, nn.Linear(2, 2)), "torch.nn.modules.linear.Linear", convert, '"net.safetensors"')
    refused(saved(tmp_path, {"a.weight": torch.ones(2, 2), "b": Trap(str(tmp_path / "mark"))}), "mkdir", convert)
    assert not (tmp_path / "mark").exists()


@pytest.mark.full(every=3)
@pytest.mark.parametrize(
    ("what", "part"),
    [
        (torch.ones(2), "holds a Tensor"),
        ({"a": 1}, "'a' of type int"),
        ({"0._packed_params.dtype": torch.qint8}, "0._packed_params.dtype, which belongs to a quantised layer"),
        ({"model": {"a.weight": torch.ones(2, 2)}, "state_dict": {}}, "state_dict and model"),
        ({"a.weight": torch.ones(1).expand(10**5, 10**5)}, "268,435,456"),
        ({"a.weight": torch.ones(2, 2).to_sparse()}, "sparse"),
        ({"a.weight": torch.ones(2, 2, dtype=torch.int8)}, "a.weight is of type int8"),
    ],
)
def test_files_without_named_tensors_are_refused(what: Any, part: str, tmp_path: Path) -> None:
    refused(saved(tmp_path, what), part)


@pytest.mark.full(every=3)
@pytest.mark.parametrize("data", [b"plain text", b"", None])
def test_other_and_damaged_files_are_refused(data: bytes | None, tmp_path: Path) -> None:
    path = saved(tmp_path, {"a.weight": torch.ones(2, 2)})
    path.write_bytes(path.read_bytes()[:-90] if data is None else data)
    refused(path, "is not a file that torch.save wrote")


def test_without_pytorch_the_command_that_converts_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, {"a.weight": torch.ones(2, 2)}, "it's.ckpt")
    monkeypatch.setattr(torch_files, "find_spec", lambda _: None)
    refused(path, "PyTorch, which is not installed", "save_file(m,")


def test_a_file_that_takes_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_files, "_MAX_SECONDS", 0.01)
    refused(saved(tmp_path, {"a.weight": torch.ones(2, 2)}), "within 0.01 s")


def test_a_crash_of_the_reader_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crash.py").write_text("import os; print('x', flush=True); os.abort()")
    monkeypatch.setattr(torch_files._torch_reader, "__file__", str(tmp_path / "crash.py"))
    refused(saved(tmp_path, {"a.weight": torch.ones(2, 2)}), "PyTorch cannot read it (exit code -6)")


@pytest.mark.parametrize(
    "parts",
    [
        (nn.Linear(4, 8), nn.Dropout(0.1), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)),
        (nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 3)),
    ],
)
def test_the_same_names_of_two_models_are_refused(parts: tuple[nn.Module, ...], tmp_path: Path) -> None:
    torch.save(nn.Sequential(*parts).state_dict(), tmp_path / "net.pt")
    with pytest.raises(WeightsError, match="2: is a BatchNorm, of which the names do not say whether it is before"):
        GeneralNetwork.load(tmp_path / "net.pt", activation="relu")
