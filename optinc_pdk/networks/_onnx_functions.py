"""Functions of ONNX models: their nodes are put in place of the calls, which some versions of PyTorch leave."""

from __future__ import annotations

import reprlib
from typing import Any

from optinc_pdk.errors import InputError

MOST_CALLS = 20
MOST_CALL_BYTES, MOST_BODY_BYTES = 2**11, 2**18
"""Limits of functions: the depth of calls, bytes of a call, and bytes of what takes the place of all calls."""


def inlined(model: Any) -> Any:
    """Return a model in which the nodes of its functions are in place of their calls.

    Raises:
        InputError: The functions have parts that are executed conditionally, call themselves, or have too many nodes.
    """
    if not model.functions:
        return model
    import onnx
    from onnx.inliner import inline_local_functions

    graphs = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    bodies = {(each.domain, each.name, each.overload): each.node for each in model.functions}
    sizes: dict[tuple[str, str, str], int] = {}

    def size(nodes: Any, depth: int) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            call = key in bodies
            # the names of a call take the place of those in the function, however often it has them
            if any(item.type in graphs for item in node.attribute) or (call and node.ByteSize() > MOST_CALL_BYTES):
                raise InputError(
                    f"the node {reprlib.repr(node.op_type)} has a graph of its own, or more than {MOST_CALL_BYTES:,} "
                    "bytes for the call of a function; export the model without functions"
                )
            if call and depth == MOST_CALLS:
                raise InputError(f"has more than {MOST_CALLS} functions that call each other; export it without them")
            if call and key not in sizes:
                sizes[key] = size(bodies[key], depth + 1)
            total += sizes[key] if call else node.ByteSize()
        return total

    # nodes outside functions are no larger afterwards
    if size(model.graph.node, 0) - sum(node.ByteSize() for node in model.graph.node) > MOST_BODY_BYTES:
        raise InputError(f"has functions of more than {MOST_BODY_BYTES:,} bytes in all; export it without functions")
    try:
        return inline_local_functions(model)
    except Exception as fault:
        # exceptions of the native code have no class in common
        raise InputError(f"has functions that cannot be put in place ({fault}); export it without functions") from fault
