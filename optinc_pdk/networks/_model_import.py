"""Trained models of PyTorch and scikit-learn as chains of steps.

PyTorch is imported only when a module is given, scikit-learn not at all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optinc_pdk.errors import InputError
from optinc_pdk.networks._steps import RELU, FoldedModel, LeftOut, Step, fold
from optinc_pdk.networks._torch_functions import (
    TUPLES,
    Signal,
    Size,
    array,
    check_unchanged,
    layer,
    module_call,
    steps_of,
)
from optinc_pdk.networks.layers import Layer

if TYPE_CHECKING:
    from torch import fx, nn
    from torch.export import ExportedProgram

_WRAPPERS = {"OptimizedModule": "_orig_mod", "DataParallel": "module", "DistributedDataParallel": "module"}
"""Modules of PyTorch that compute what another one does, and their attributes for it."""
_SIZES = {"size", "sym_size", "dim", "getattr", "assert_tensor_metadata"}
"""Functions whose results depend on the shape of the signals only."""


def torch_model(module: Any) -> FoldedModel:
    """Return layers and activation of a PyTorch module, see :meth:`optinc_pdk.networks.Network.from_torch`."""
    torch = sys.modules.get("torch")
    while torch is not None and type(module).__name__ in _WRAPPERS and isinstance(module, torch.nn.Module):
        module = getattr(module, _WRAPPERS[type(module).__name__])
    exported = sys.modules.get("torch.export")
    if exported is not None and isinstance(module, exported.ExportedProgram):
        walk = _exported_walk(module)
    elif torch is not None and isinstance(module, torch.nn.Module):
        # a trace calls the forward function of the class; graphs of exported programs have hooks that check inputs
        if type(module).__name__ != "GraphModule":
            check_unchanged(type(module).__name__, module)
        with _evaluated(module) as remarks:
            walk = _Walk(type(module).__name__, _traced(module), {}, remarks)
            return _folded(walk)
    else:
        raise InputError(
            f"module is of type {type(module).__name__}; give a torch.nn.Module, such as torch.nn.Sequential, or an "
            "exported program (torch.export.export)"
        )
    return _folded(walk)


def _folded(walk: _Walk) -> FoldedModel:
    model = fold(walk.steps())
    return replace(model, remarks=(*walk.remarks, *model.remarks))


@contextmanager
def _evaluated(module: nn.Module) -> Iterator[list[str]]:
    """Set a module to evaluation for a while; remarks on what training computes in another way."""
    modes = [(name, part, part.training) for name, part in module.named_modules()]
    changed = [
        f"{name} ({type(part).__name__})"
        for name, part, training in modes
        if training and any(kind in type(part).__name__ for kind in ("Dropout", "BatchNorm"))
    ]
    try:
        for _, part, _ in modes:
            # modules of exported programs have no eval()
            part.training = False
        yield [f"the module is in training mode, and read as in evaluation: {', '.join(changed)}"] if changed else []
    finally:
        for _, part, training in modes:
            part.training = training


def _traced(module: nn.Module) -> fx.GraphModule:
    """Return the graph of a module's forward function.

    Raises:
        InputError: It cannot be traced.
    """
    from torch import fx, nn

    try:
        # a module of torch.nn is not traced into
        whole = fx.Tracer().is_leaf_module(module, "")
        return fx.symbolic_trace(nn.Sequential(module) if whole else module)
    except Exception as fault:
        # the forward function is the user's, and may raise anything for a symbolic input
        raise InputError(
            f"{type(module).__name__}: its forward function cannot be traced ({fault}); give a torch.nn.Sequential, or "
            "torch.export.export(module.eval(), (x,)) for some samples x"
        ) from fault


def _exported_walk(program: ExportedProgram) -> _Walk:
    """Return the walk through an exported program, whose parameters are inputs of its graph."""
    stored = {**program.constants, **program.state_dict}
    lifted = {
        spec.arg.name: stored[spec.target]
        for spec in program.graph_signature.input_specs
        if spec.target is not None and spec.target in stored
    }
    return _Walk("ExportedProgram", program.graph_module, lifted, [], program.graph_signature.user_outputs)


class _Walk:
    """A graph of PyTorch that is read node by node.

    What depends on parameters and numbers alone is computed by PyTorch, on copies of the parameters.

    Args:
        name: Name of the model, for messages.
        graph: The graph.
        lifted: Parameters that are inputs of the graph, by name.
        remarks: Remarks up to now.
        outputs: Names of the outputs; by default all.
    """

    def __init__(
        self,
        name: str,
        graph: fx.GraphModule,
        lifted: Mapping[str, Any],
        remarks: list[str],
        outputs: Any = None,
    ) -> None:
        from torch import fx

        self.name, self.graph, self.lifted, self.remarks, self.outputs = name, graph, lifted, remarks, outputs
        self.interpreter = fx.Interpreter(graph, garbage_collect_values=False)
        self.values: dict[fx.Node, Any] = self.interpreter.env
        self.signal: Signal | None = None
        # number of signals, where it is known
        self.count: int | None = None
        self.left_out = False

    def steps(self) -> Iterator[Step]:
        """Yield the steps in the order of the graph.

        Raises:
            InputError: The graph computes something else.
        """
        import torch

        for node in self.graph.graph.nodes:
            with torch.no_grad():
                found = list(self._node(node))
            yield from found

    def _node(self, node: fx.Node) -> Iterator[Step]:
        where = f"{self.name}: {node.target if node.op == 'call_module' else node.name}"
        taken = [self.values[each] for each in node.all_input_nodes]
        if node.op == "placeholder":
            self.values[node] = self._input(where, node)
        elif node.op == "get_attr":
            self.values[node] = _copy(self.interpreter.fetch_attr(str(node.target)))
        elif node.op == "output":
            self._output(where, node)
        elif not any(isinstance(value, Signal | Size) for value in taken):
            self.values[node] = self._constant(where, node)
        elif _function_name(node) in _SIZES or not any(isinstance(value, Signal) for value in taken):
            self.values[node] = Size()
        else:
            yield from self._call(where, node, [value for value in taken if isinstance(value, Signal)])

    def _input(self, where: str, node: fx.Node) -> Any:
        if node.name in self.lifted:
            return _copy(self.lifted[node.name])
        if self.signal is not None:
            raise InputError(f"{where}: a second input; give a module of one input")
        self.signal = Signal()
        return self.signal

    def _output(self, where: str, node: fx.Node) -> None:
        given = [each for each in node.all_input_nodes if self.outputs is None or each.name in self.outputs]
        if [self.values[each] for each in given] != [self.signal]:
            raise InputError(f"{where}: is not the result of the last step alone; return one tensor")

    def _constant(self, where: str, node: fx.Node) -> Any:
        try:
            return self.interpreter.run_node(node)
        except Exception as fault:
            # the arguments are the user's, and PyTorch may raise anything for them
            raise InputError(f"{where}: cannot be computed ({fault}); correct it") from fault

    def _call(self, where: str, node: fx.Node, signals: list[Signal]) -> Iterator[Step]:
        """Yield the steps of a function, method or module that takes the signals."""
        arguments, keywords = self.interpreter.fetch_args_kwargs_from_env(node)
        # PyTorch calls the signals input or self
        named = [keywords.pop(name) for name in ("input", "self") if isinstance(keywords.get(name), Signal)]
        positional = [*named, *arguments]
        if node.op == "call_module":
            part = self.graph.get_submodule(str(node.target))
            where = f"{where} ({type(part).__name__})"
            function, rest = module_call(where, part)
            positional += rest
        else:
            function = _function_name(node)
            where = f"{where} ({function.rpartition('.')[2]})"
        if signals != [self.signal]:
            # the error of what is no parameter
            array(where, signals[0])
        for what in steps_of(where, function, positional, keywords):
            if isinstance(what, str):
                self.remarks.append(what)
            elif isinstance(what, int):
                self._check_count(where, what)
            elif not (isinstance(what, LeftOut) and self.left_out):
                self._follow(where, what)
                yield (where, what)
        self.signal = Signal()
        self.values[node] = (self.signal,) if function in TUPLES else self.signal

    def _follow(self, where: str, what: Any) -> None:
        """Keep the number of signals after a step."""
        if isinstance(what, Layer):
            self._check_count(where, what.inputs)
            self.count = what.outputs
        elif isinstance(what, LeftOut):
            self.left_out = True
            if self.count == 1:
                raise InputError(f"{where}: is the same for every value of one output; remove it")

    def _check_count(self, where: str, count: int) -> None:
        """Check the number of signals that a step states; it is the number of inputs, where nothing else is known."""
        if self.count not in (None, count):
            raise InputError(f"{where}: takes {count} signals, and the step before it gives {self.count}; correct one")
        self.count = count


def _copy(value: Any) -> Any:
    """Return a copy of a parameter, which functions of the graph may change in place."""
    return value.detach().clone() if hasattr(value, "detach") else value


def _function_name(node: fx.Node) -> str:
    """Return the name of a function or method in the table of functions."""
    target: Any = node.target
    name = str(getattr(target, "__name__", target)).partition(".")[0].strip("_")
    if name == "batch_norm" and getattr(target, "__module__", "") == "torch.nn.functional":
        return "functional.batch_norm"
    return name


_ESTIMATORS = ("MLPClassifier", "MLPRegressor")


def sklearn_model(estimator: Any) -> tuple[FoldedModel, dict[str, Any]]:
    """Return layers, activation and card of an estimator, see :meth:`optinc_pdk.networks.Network.from_sklearn`."""
    kind = type(estimator).__name__
    bases = {base.__name__ for base in type(estimator).__mro__ if base.__module__.partition(".")[0] == "sklearn"}
    if "Pipeline" in bases:
        raise InputError(
            f"estimator is of type {kind}; give its last step, estimator[-1], and data as estimator[:-1].transform(x)"
        )
    if bases.isdisjoint(_ESTIMATORS):
        raise InputError(f"estimator is of type {kind}; give an MLPClassifier or MLPRegressor of scikit-learn")
    if not hasattr(estimator, "coefs_"):
        raise InputError(f"estimator, of type {kind}, is not fitted; call fit first")
    if estimator.activation not in ("relu", "identity") and len(estimator.coefs_) > 1:
        raise InputError(
            f"estimator has activation {estimator.activation!r}, which no chip computes; train with activation='relu'"
        )
    card: dict[str, Any] = {}
    if "MLPClassifier" in bases:
        if estimator.out_activation_ == "logistic" and estimator.n_outputs_ > 1:
            raise InputError(
                f"estimator has {estimator.n_outputs_} labels that do not exclude each other, and a chip chooses one; "
                "train one estimator for each label"
            )
        card["classes"] = np.asarray(estimator.classes_).tolist()
    return fold(_sklearn_steps(estimator)), card


def _sklearn_steps(estimator: Any) -> Iterator[Step]:
    """Yield the layers of an estimator, with ReLU between them, if it has activations."""
    for i, (weight, bias) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        if i and estimator.activation == "relu":
            yield (f"activation {i - 1}", RELU)
        yield (f"coefs_[{i}]", layer(f"coefs_[{i}]", np.asarray(weight).T, np.asarray(bias)))
