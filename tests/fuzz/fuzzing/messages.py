"""Mutations of protocol-buffer messages, such as ONNX models, through their descriptors."""

from __future__ import annotations

from random import Random
from typing import Any

from google.protobuf.message import Message

INTS = (0, 1, -1, 2, 3, 7, 10, 255, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e38, -1e38, 1e-40, float("nan"), float("inf"), float("-inf"))
TEXTS = (
    "",
    "a",
    "x",
    "Gemm",
    "Relu",
    "Clip",
    "MatMul",
    "Add",
    "Constant",
    "Identity",
    "Max",
    "Min",
    "alpha",
    "beta",
    "transB",
    "Squeeze",
    "Slice",
    "LinearClassifier",
    "ai.onnx.ml",
    "../w.onnx.data",
    "/etc/passwd",
    "w.onnx",
    "9",
    "é",
    "x" * 10_000,
)
INT32 = (2**31 - 1, -(2**31))


def mutate_message(rng: Random, message: Message) -> None:
    """Change a message in place: fields of it or of messages within it."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        fields = list(_fields(message))
        if not fields:
            return
        owner, field, value = rng.choice(fields)
        try:
            if _repeated(field):
                _change_repeated(rng, owner, field, value, fields)
            elif field.message_type is not None or rng.random() < 0.15:
                owner.ClearField(field.name)
            else:
                setattr(owner, field.name, _scalar(rng, field, fields))
        except (TypeError, ValueError):  # the field takes no such number
            owner.ClearField(field.name)


def _repeated(field: Any) -> bool:
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _fields(message: Message) -> list[tuple[Any, Any, Any]]:
    """Message, descriptor and value of every field that is set, at any depth."""
    found: list[tuple[Any, Any, Any]] = []
    stack = [message]
    while stack and len(found) < 2000:
        one = stack.pop()
        for field, value in one.ListFields():
            found.append((one, field, value))
            if field.message_type is not None:
                stack.extend(value if _repeated(field) else [value])
        # an unset field of the same message can be set as well
        for field in one.DESCRIPTOR.fields:
            if field.message_type is None and not _repeated(field) and not getattr(one, field.name):
                found.append((one, field, None))
    return found


def _change_repeated(rng: Random, owner: Any, field: Any, value: Any, fields: list[tuple[Any, Any, Any]]) -> None:
    at, what = rng.randrange(len(value)), rng.randrange(4)
    if what == 0:
        del value[at]
    elif field.message_type is not None:
        others = [each for _, f, v in fields if f.message_type is field.message_type and _repeated(f) for each in v]
        copy = type(value[at])()
        copy.CopyFrom(rng.choice(others) if what == 1 else value[at])
        if what == 3:
            value[at].Clear()
        else:
            value.append(copy)
    elif what == 1:
        value.append(value[at])
    else:
        value[at] = _scalar(rng, field, fields)


def _scalar(rng: Random, field: Any, fields: list[tuple[Any, Any, Any]]) -> Any:
    """A value of the field's type: an odd one, or one that occurs elsewhere."""
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice(FLOATS)
    if field.type == field.TYPE_BYTES:
        return rng.randbytes(rng.choice((0, 1, 4, 8, 32)))
    if field.cpp_type == field.CPPTYPE_STRING:
        used = [v for _, f, v in fields if f.type == field.TYPE_STRING and isinstance(v, str)]
        return rng.choice(used) if used and rng.random() < 0.5 else rng.choice(TEXTS)
    if field.cpp_type == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    return rng.choice(
        INT32 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_ENUM) and rng.random() < 0.3 else INTS
    )
