"""PyTorch modules and estimators of scikit-learn as networks: equal outputs; what no chip computes is refused."""

from __future__ import annotations

import copy
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
nn = torch.nn
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
    ],
)
def test_modules_and_networks_have_equal_outputs(module: Any, activation: str) -> None:
    network = op.Network.from_torch(module, (-4.0, 4.0))
    assert isinstance(network, GeneralNetwork)
    assert network.activation == activation
    assert network.task.input_range is not None and network.task.input_range[1].tolist() == [4.0] * 4
    module.eval()
    # the network computes in float64, with the module's values
    expected = copy.deepcopy(module).double()(torch.as_tensor(X, dtype=torch.float64)).detach().numpy()
    assert np.allclose(network.forward(X), expected, rtol=1e-12, atol=1e-12)


def test_a_module_of_many_layers() -> None:
    module = nn.Sequential(*(part for _ in range(3) for part in (nn.Linear(4, 4), nn.ReLU())), nn.Linear(4, 3))
    network = op.GeneralNetwork.from_torch(module)
    assert network.structure == (4, 4, 4, 4, 3)
    assert network.task.input_range is None


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ([1], "module is of type list; give a torch.nn.Module"),
        (sequential(nn.Sigmoid()), r"Sequential: 1 \(Sigmoid\): is not computed by a chip; .* leave it out at the end"),
        (sequential(nn.BatchNorm1d(6), nn.ReLU()), r"1 \(BatchNorm1d\): .*fuse_linear_bn_eval"),
        (nn.Sequential(nn.ReLU(), nn.Linear(4, 2)), r"0 \(ReLU\): an activation that does not follow a layer"),
        (nn.Sequential(nn.Linear(4, 2), nn.ReLU()), r"1 \(ReLU\): an activation after the last layer"),
        (
            nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Hardtanh(0, 1), nn.Linear(4, 2)),
            r"3 \(Hardtanh\): the activation is clipped_relu, that of earlier layers is relu",
        ),
        (nn.Sequential(nn.Conv2d(1, 2, 3)), r"0 \(Conv2d\): is not computed by a chip"),
        (nn.Sequential(), "the model has no layer"),
        (Skip(), "Skip: add: does not take the result of the step before it alone"),
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
        (fitted(activation="identity"), r"'identity'.*, or build the product of its matrices with op.build\(matrix\)"),
        (several, "has 2 labels that do not exclude each other"),
    ]
    for estimator, message in refused:
        with pytest.raises(InputError, match=message):
            op.Network.from_sklearn(estimator)


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
        "module is of type list; give a torch.nn.Module, such as torch.nn.Sequential",
        "estimator is of type list; give an MLPClassifier or MLPRegressor of scikit-learn",
    ]
