"""PyTorch modules and estimators of scikit-learn as networks: equal outputs; what no chip computes is refused."""

from __future__ import annotations

import copy
import importlib
import subprocess
import sys
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import optinc_pdk as op
from optinc_pdk.errors import InputError
from optinc_pdk.networks import GeneralNetwork, check_data

torch = pytest.importorskip("torch", reason="PyTorch is not installed: the extra [train] has it")
nn, functional = torch.nn, torch.nn.functional
ModulatorSine = importlib.import_module("optinc_pdk.networks.training.modulator_sine").ModulatorSine
X = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)


class Written(nn.Module):  # type: ignore[misc, name-defined]
    """A module with a forward function of its own."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.first, self.second, self.function = nn.Linear(4, 6), nn.Linear(6, 2), function

    def forward(self, x: Any) -> Any:
        return self.second(self.function(self.first(torch.flatten(x, 1))))


class Skip(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.second(x + torch.relu(self.first(x)))


class Branch(nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


def sequential(*middle: Any) -> Any:
    return nn.Sequential(nn.Linear(4, 6), *middle, nn.Linear(6, 2))


@pytest.mark.parametrize(
    ("module", "activation"),
    [
        (sequential(nn.ReLU()), "relu"),
        (sequential(nn.ReLU(inplace=True), nn.Dropout(), nn.Identity()), "relu"),
        (sequential(nn.Hardtanh(0.0, 1.0)), "clipped_relu"),
        (nn.Sequential(OrderedDict(flat=nn.Flatten(), net=sequential(nn.ReLU()))), "relu"),
        (nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 2)).double(), "relu"),
        (sequential(nn.ReLU()).half(), "relu"),
        (sequential(nn.ReLU()).bfloat16(), "relu"),
        (Written(nn.functional.relu), "relu"),
        (Written(torch.relu), "relu"),
        (Written(lambda x: x.relu()), "relu"),
        (Written(lambda x: x.clamp(min=0)), "relu"),
        (Written(lambda x: torch.clamp(x, 0, 1)), "clipped_relu"),
        (Written(lambda x: nn.functional.hardtanh(x, 0.0, max_val=1.0)), "clipped_relu"),
        (Written(lambda x: nn.functional.dropout(nn.functional.relu(x), 0.5, training=False)), "relu"),
        (sequential(nn.BatchNorm1d(6), nn.ReLU(), nn.AlphaDropout()), "relu"),
        (nn.Sequential(nn.BatchNorm1d(4, affine=False, eps=0.1), sequential(nn.ReLU6())), "clipped_relu"),
        (sequential(nn.Hardtanh(-2.0, 0.5)), "clipped_relu"),
        (sequential(nn.Hardsigmoid()), "clipped_relu"),
        (sequential(nn.Threshold(0, 0)), "relu"),
        (sequential(ModulatorSine()), "sine"),
        (Written(lambda x: (torch.clamp(x, 0, 1) * (0.5 * torch.pi)).sin()), "sine"),
    ],
)
def test_modules_and_networks_have_equal_outputs(module: Any, activation: str) -> None:
    network = op.Network.from_torch(module, (-4.0, 4.0))
    assert isinstance(network, GeneralNetwork)
    assert network.activation == activation
    assert network.task.input_range is not None and network.task.input_range[1].tolist() == [4.0] * 4
    assert all(part.training for part in module.modules())
    module.eval()
    # the network computes in float64, with the module's values
    expected = copy.deepcopy(module).double()(torch.as_tensor(X, dtype=torch.float64)).detach().numpy()
    assert np.allclose(network.forward(X), expected, rtol=1e-12, atol=1e-12)


def test_a_module_of_many_layers() -> None:
    module = nn.Sequential(*(part for _ in range(3) for part in (nn.Linear(4, 4), nn.ReLU())), nn.Linear(4, 3))
    network = op.GeneralNetwork.from_torch(module)
    assert network.structure == (4, 4, 4, 4, 3)
    assert network.task.input_range is None


FUNCTIONS = {
    "relu": lambda m, x: functional.relu(input=x),
    "relu6": lambda m, x: functional.relu6(x),
    "hardtanh": lambda m, x: functional.hardtanh(x, -0.3, 2, inplace=True),
    "hardsigmoid": lambda m, x: functional.hardsigmoid(x),
    "threshold": lambda m, x: functional.threshold(x, 0.1, 0.1),
    "clamp_min": lambda m, x: x.clamp_min(0.1),
    "clamp_max": lambda m, x: torch.clamp_max(x, 0.3),
    "minimum": lambda m, x: torch.minimum(torch.maximum(x, torch.tensor(0.0)), m.one),
    "shapes": lambda m, x: torch.relu(x.view(x.size(0), -1).view(-1, 6).reshape(x.shape[0], 6).squeeze(0)),
    "types": lambda m, x: torch.relu(x.to(x.dtype).contiguous()),
    "numbers": lambda m, x: torch.relu((1 - x * 0.5) / 0.7 + 0.1),
    "parameters": lambda m, x: torch.relu(-torch.sub(x, m.mean, alpha=2) * m.scale),
    "in place": lambda m, x: torch.relu(x.add_(1).mul_(m.scale)),
    "linear": lambda m, x: torch.relu(functional.linear(x, m.square.t(), m.mean)),
    "matrices": lambda m, x: torch.relu(torch.addmm(m.mean, x @ m.square, m.square.T, beta=2, alpha=0.5)),
    "batch_norm": lambda m, x: torch.relu(torch.batch_norm(x, *m.norms, False, 0.1, 0.01, False)),
    "functional batch_norm": lambda m, x: torch.relu(
        functional.batch_norm(x, m.norms[2], m.norms[3], bias=m.norms[1], weight=m.norms[0], eps=0.01)
    ),
    "dropout": lambda m, x: functional.dropout(torch.relu(x), training=m.training),
    "no activation": lambda m, x: x * 2 + 1,
}
FORMS = {
    "module": lambda m, x: m,
    "exported": lambda m, x: torch.export.export(m, (x,)),
    "any number of samples": lambda m, x: torch.export.export(
        m, (x,), dynamic_shapes=({0: torch.export.Dim("samples")},)
    ),
    "graph module": lambda m, x: torch.export.export(m, (x,)).module(),
    "decomposed": lambda m, x: torch.export.export(m, (x,)).run_decompositions(),
}


class Called(nn.Module):  # type: ignore[misc, name-defined]
    """A module with a function of the table between two layers, and parameters for it."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)
        self.register_buffer("one", torch.tensor(1.0))
        for name, shape in (("mean", (6,)), ("scale", (1, 6)), ("square", (6, 6))):
            self.register_buffer(name, torch.randn(shape))
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)
        self.function = function

    @property
    def norms(self) -> tuple[Any, ...]:
        return (self.norm.weight, self.norm.bias, self.norm.running_mean, self.norm.running_var)

    def forward(self, x: Any) -> Any:
        return self.second(self.function(self, self.norm(self.first(x))))


@pytest.mark.full(every=10)
# of PyTorch's own, where programs are decomposed
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_operators(name: str, form: str, kind: str) -> None:
    if (name, form) == ("threshold", "decomposed"):
        pytest.skip("it is decomposed into a comparison")
    module = getattr(Called(FUNCTIONS[name]).eval(), kind)()
    x = getattr(torch.as_tensor(X), kind)()
    network = op.Network.from_torch(FORMS[form](module, x))
    expected = module(x).detach().numpy()
    assert np.abs(network.forward(x.numpy()) - expected).max() < {"float": 1e-5, "double": 1e-12}[kind]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_wrapped_modules() -> None:
    module = sequential(nn.ReLU()).eval()
    expected = op.Network.from_torch(module).forward(X)
    for wrapped in (torch.compile(module), nn.DataParallel(module), torch.compile(nn.DataParallel(module))):
        assert np.array_equal(op.Network.from_torch(wrapped).forward(X), expected)


def test_functions_in_place_leave_the_parameters_as_they_are() -> None:
    module = Called(lambda m, x: torch.relu(x + m.mean.mul_(2))).eval()
    before = module.mean.clone()
    network = op.Network.from_torch(torch.export.export(module, (torch.as_tensor(X),)))
    assert torch.equal(module.mean, before)
    assert np.allclose(network.forward(X), module(torch.as_tensor(X)).detach().numpy(), atol=1e-5)


def test_training_mode_is_read_as_evaluation_with_a_remark() -> None:
    module = sequential(nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout())
    network = op.Network.from_torch(module)
    assert network.remarks == (
        "the module is in training mode, and read as in evaluation: 1 (BatchNorm1d), 3 (Dropout)",
    )
    assert all(part.training for part in module.modules())
    exported = op.Network.from_torch(torch.export.export(module, (torch.as_tensor(X),)))
    assert [remark.partition(":")[2] for remark in exported.remarks] == [
        " batch_norm (batch_norm): computed as in evaluation, with its running statistics",
        " dropout (dropout): left out, as in evaluation",
    ]
    assert np.allclose(network.forward(X), exported.forward(X), rtol=0, atol=1e-14)
    assert op.Network.from_torch(module.eval()).remarks == ()
    always = op.Network.from_torch(Written(lambda x: nn.functional.dropout(torch.relu(x))).eval())
    assert always.remarks == ("Written: dropout (dropout): left out, as in evaluation",)


@pytest.mark.parametrize("last", [nn.Softmax(1), nn.LogSoftmax(-1)])
def test_a_last_softmax_is_left_out(last: Any) -> None:
    module = nn.Sequential(sequential(nn.ReLU()), last).eval()
    network = op.Network.from_torch(module)
    assert network.remarks[0].endswith("the largest output is the same class without it")
    classes = module(torch.as_tensor(X)).argmax(1).numpy()
    assert np.array_equal(network.forward(X).argmax(axis=1), classes)

    class Classes(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = module

        def forward(self, x: Any) -> Any:
            return self.net(x).argmax(dim=1)

    for read in (Classes(), torch.export.export(Classes(), (torch.as_tensor(X),))):
        assert np.array_equal(op.Network.from_torch(read).forward(X), network.forward(X))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ([1], "module is of type list; give a torch.nn.Module"),
        (sequential(nn.Sigmoid()), r"Sequential: 1 \(Sigmoid\): is not computed by a chip; .* leave it out at the end"),
        (sequential(nn.BatchNorm1d(6, track_running_stats=False)), r"1 \(BatchNorm1d\): has no running statistics"),
        (
            nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()),
            r"1 \(Sigmoid\): .* outputs above 0 are those above 0.5 with it",
        ),
        (nn.Sequential(nn.Linear(4, 1), nn.Softmax(1)), r"1 \(Softmax\): is the same for every value of one output"),
        (nn.Sequential(nn.Linear(4, 2), nn.Softmax(0)), r"1 \(Softmax\): is over the samples"),
        (sequential(nn.Softmax(1)), r"2 \(Linear\): follows Sequential: 1 \(Softmax\)"),
        (sequential(nn.LeakyReLU()), r"1 \(LeakyReLU\): is not computed by a chip"),
        (sequential(nn.Threshold(0.0, 1.0)), r"1 \(Threshold\): steps from 1.0 to 0.0"),
        (Written(lambda x: torch.relu(x.view(-1, 3)).view(-1, 6)), r"view \(view\): takes 3 signals, .* gives 6"),
        (Written(lambda x: torch.relu(x + x)), r"add \(add\): does not take the result of the step before it alone"),
        (Written(lambda x: torch.relu(x * torch.ones(50, 1))), r"mul \(mul\): differs from sample to sample"),
        (Written(lambda x: torch.relu(1 / x)), r"truediv \(truediv\): is not computed by a chip"),
        (Written(lambda x: torch.relu(x / 0)), r"truediv \(truediv\): holds NaN or infinity"),
        (Written(lambda x: torch.relu(x[:, ::2])), r"getitem \(getitem\): is not computed by a chip"),
        (Written(lambda x: torch.clamp(x, torch.zeros(6))), r"clamp \(clamp\): limits signals to 6 values"),
        (
            Written(lambda x: torch.clamp(x, 0, 1, out=torch.zeros(6))),
            r"clamp \(clamp\): is called with arguments .*'out'",
        ),
        (Written(lambda x: (x.relu_(), x)[1]), r"second \(Linear\): does not take the result of the step before it"),
        (Written(lambda x: x.int()), r"int_1 \(int\): is not computed by a chip"),
        (nn.Sequential(nn.ReLU(), nn.Linear(4, 2)), r"0 \(ReLU\): an activation that does not follow a layer"),
        (nn.Sequential(nn.Linear(4, 2), nn.ReLU()), r"1 \(ReLU\): an activation after the last layer"),
        (
            nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Hardtanh(0, 1), nn.Linear(4, 2)),
            r"3 \(Hardtanh\): the activation is clipped_relu, that of earlier layers is relu",
        ),
        (nn.Sequential(nn.Conv2d(1, 2, 3)), r"0 \(Conv2d\): is not computed by a chip"),
        (nn.Sequential(), "the model has no layer"),
        (Skip(), r"Skip: add \(add\): does not take the result of the step before it alone"),
        (Branch(), r"Branch: its forward function cannot be traced .*; give a torch.nn.Sequential"),
        (Written(torch.tanh), r"Written: tanh \(tanh\): is not computed by a chip"),
    ],
)
def test_modules_that_no_chip_computes_are_refused(module: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        op.Network.from_torch(module)


def test_a_module_without_values_is_refused() -> None:
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2, device="meta"))
    with pytest.raises(InputError, match=r"2 \(Linear\): is on the device 'meta'.*load its weights"):
        op.Network.from_torch(module)


def test_weights_that_are_no_numbers_are_refused() -> None:
    module = sequential(nn.ReLU())
    with torch.no_grad():
        module[2].bias[1] = float("nan")
    with pytest.raises(InputError, match=r"2 \(Linear\): bias holds NaN or infinity .*first is bias\[1\]"):
        op.Network.from_torch(module)


@pytest.fixture(scope="module")
def iris() -> tuple[Any, Any, Any]:
    x, y = load_iris(return_X_y=True)
    return x, y, MLPClassifier((6, 5), max_iter=4000, random_state=0).fit(x, y)


def test_a_classifier_and_its_network_choose_equal_classes(iris: tuple[Any, Any, Any]) -> None:
    x, y, model = iris
    network = op.Network.from_sklearn(model)
    assert network.structure == (4, 6, 5, 3)
    assert network.classes == (0, 1, 2)
    outputs = network.forward(x)
    assert np.array_equal(outputs.argmax(axis=1), model.predict(x))
    shares = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    assert np.allclose(shares / shares.sum(axis=1, keepdims=True), model.predict_proba(x))
    assert np.array_equal(check_data(x, y, network).labels, y)  # type: ignore[arg-type]


def test_two_classes_have_one_output_and_labels_of_the_estimator(iris: tuple[Any, Any, Any]) -> None:
    x, y, _ = iris
    names = np.where(y == 2, "virginica", "another")
    model = MLPClassifier((5,), max_iter=4000, random_state=0).fit(x, names)
    network = op.Network.from_sklearn(model)
    assert network.structure == (4, 5, 1)
    assert network.classes == ("another", "virginica")
    labels = check_data(x, names, network).labels
    assert labels is not None and np.array_equal(labels, y == 2)
    assert np.array_equal(network.forward(x)[:, 0] > 0.0, model.predict(x) == "virginica")
    with pytest.raises(InputError, match=r"y\[0\] of shape \(150,\) is the label 'setosa', expected one of .*another"):
        check_data(x, np.where(y == 2, "virginica", "setosa"), network)


def test_classes_that_are_no_list_of_labels_are_refused() -> None:
    layers = op.Network.from_torch(sequential(nn.ReLU())).layers
    for stated in (["a"], ["a", "a"], "ab", [[1], [2]]):
        network = GeneralNetwork.of_layers(layers, card={"classes": stated})
        with pytest.raises(InputError, match=r"card: classes is .*; give a list of 2 different numbers or texts"):
            check_data(X, np.zeros(50, dtype=int), network)


def test_a_regressor_and_its_network_have_equal_outputs(iris: tuple[Any, Any, Any]) -> None:
    x, _, _ = iris
    model = MLPRegressor(hidden_layer_sizes=(7,), max_iter=3000, random_state=0).fit(x[:, :3], x[:, 3] / 2.5)
    network = op.Network.from_sklearn(model)
    assert network.classes is None
    assert np.allclose(network.forward(x[:, :3])[:, 0], model.predict(x[:, :3]))


def fitted(**settings: Any) -> Any:
    return MLPClassifier((3,), max_iter=5000, random_state=0, **settings).fit(X[:, :2], np.arange(50) % 2)


def test_estimators_that_no_chip_computes_are_refused(iris: tuple[Any, Any, Any]) -> None:
    x, y, _ = iris
    several = MLPClassifier((3,), max_iter=5000, random_state=0).fit(x, np.stack([y == 0, y > 0], axis=1))
    refused = [
        (make_pipeline(StandardScaler(), MLPClassifier()), r"is of type Pipeline; give its last step, estimator\[-1\]"),
        (StandardScaler(), "is of type StandardScaler; give an MLPClassifier or MLPRegressor"),
        (7, "is of type int; give an MLPClassifier"),
        (MLPClassifier(), "of type MLPClassifier, is not fitted; call fit first"),
        (fitted(activation="tanh"), "has activation 'tanh', which no chip computes; train with activation='relu'$"),
        (several, "has 2 labels that do not exclude each other"),
    ]
    for estimator, message in refused:
        with pytest.raises(InputError, match=message):
            op.Network.from_sklearn(estimator)


def test_an_estimator_without_activations_is_one_layer() -> None:
    x = X.astype(float)[:, :3]
    model = MLPRegressor(hidden_layer_sizes=(5, 4), activation="identity", max_iter=3000, random_state=0)
    network = op.Network.from_sklearn(model.fit(x, x @ [1.0, -2.0, 0.5]))
    assert network.structure == (3, 1)
    assert "are one layer, the product of their matrices" in network.remarks[0]
    assert np.allclose(network.forward(x)[:, 0], model.predict(x), rtol=0, atol=1e-12)


def test_a_module_that_computes_something_else_than_its_class_is_refused() -> None:
    doubled = nn.Sequential(nn.Linear(4, 3))
    doubled.register_forward_hook(lambda _, __, output: 2 * output)
    patched, inner = nn.Sequential(nn.Linear(4, 3)), nn.Sequential(nn.Linear(4, 3))
    patched.forward = lambda x: 2 * patched[0](x)
    inner[0].forward = lambda x: 2 * x
    for module, where in ((doubled, "Sequential: has"), (patched, "Sequential: has"), (inner, r"0 \(Linear\): has")):
        with pytest.raises(InputError, match=rf"^{where.replace('0', 'Sequential: 0')} hooks or a forward function"):
            op.Network.from_torch(module)


def test_hooks_of_a_module_are_refused() -> None:
    module = sequential(nn.ReLU())
    prune = importlib.import_module("torch.nn.utils.prune")
    prune.l1_unstructured(module[0], "weight", 0.5)
    with pytest.raises(InputError, match=r"0 \(Linear\): has hooks.*prune.remove"):
        op.Network.from_torch(module)
    prune.remove(module[0], "weight")
    assert np.count_nonzero(op.Network.from_torch(module).layers[0].weight) == 12


def test_neither_package_is_imported_without_a_model() -> None:
    program = (
        "import sys, optinc_pdk as op\n"
        "from optinc_pdk.networks import bundled_weights\n"
        "for read in (op.Network.from_torch, op.Network.from_sklearn):\n"
        "    try:\n"
        "        read([])\n"
        "    except ValueError as fault:\n"
        "        print(fault)\n"
        "assert not {'torch', 'sklearn'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "module is of type list; give a torch.nn.Module, such as torch.nn.Sequential, or an exported program "
        "(torch.export.export)",
        "estimator is of type list; give an MLPClassifier or MLPRegressor of scikit-learn",
    ]
