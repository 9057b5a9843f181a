"""What the registry knows of an op: its signature, and how shapes, kernels and gradients are had.

The signature language (see ``registry.op``)::

    "x: T, y: T; transpose_a: bool = False -> z: T"

Inputs stand before ``;``, attributes before ``->``, outputs after it. A type is a dtype's name, a type variable
(``T`` any, ``N`` numeric, ``R`` real, ``F`` floating or complex, ``E`` floating, ``C`` complex, ``Z`` integer, ``I``
int32 or int64, each with an optional digit for another variable of the class), ``ref(...)`` of one, ``T*`` for a list
of one type, ``any*`` for a list of mixed types, or, in outputs, the name of an attribute of kind ``type`` (``dtype``),
of ``list(type)`` with a star (``dtypes*``), or ``T*num`` for as many as the attribute ``num`` says.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType


class NoGrad:
    """The decision that an op has no gradient, with the reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"NO_GRAD({self.reason!r})"


NO_GRAD = NoGrad


class Undefined(NoGrad):
    """The decision that an op has no gradient and that asking for it is an error: LookupError, as in TensorFlow."""

    def __repr__(self) -> str:
        return f"UNDEFINED({self.reason!r})"


UNDEFINED = Undefined


class Sample:
    """Arguments of one call of an op's builder, from which the registry's tests are made.

    `args` are arrays or Python values, one per input (a list for a list input); `attrs` attributes by name.
    `differentiable=False` leaves the sample out of the gradient check, e.g. at a kink. `fails` is the error class with
    which the kernel must end. `values=False`: shape and dtype are checked, the values differ from run to run.
    """

    def __init__(
        self,
        *args: Any,
        differentiable: bool = True,
        fails: type[BaseException] | None = None,
        values: bool = True,
        **attrs: Any,
    ) -> None:
        self.args = args
        self.attrs = attrs
        self.differentiable = differentiable
        self.fails = fails
        self.values = values


@dataclasses.dataclass(frozen=True)
class Arg:
    """One input or output of a signature."""

    name: str
    type: DType | None  # a fixed type
    var: str  # a type variable, or in outputs an attribute's name; "" if fixed or mixed
    ref: bool
    list: bool
    mixed: bool
    count: str  # in outputs: the attribute that says how many


@dataclasses.dataclass(frozen=True)
class Attr:
    """One attribute of a signature."""

    name: str
    kind: str
    optional: bool
    required: bool
    default: Any


@dataclasses.dataclass(frozen=True)
class Signature:
    """A parsed signature."""

    text: str
    inputs: tuple[Arg, ...]
    attrs: tuple[Attr, ...]
    outputs: tuple[Arg, ...]


_NUMERIC = [d for d in dtypes.all_types() if d.is_floating or d.is_integer or d.is_complex]
_CLASSES: dict[str, frozenset[DType]] = {
    "T": frozenset(dtypes.all_types()),
    "N": frozenset(_NUMERIC),
    "R": frozenset(d for d in _NUMERIC if not d.is_complex),
    "F": frozenset(d for d in _NUMERIC if not d.is_integer),
    "E": frozenset(d for d in _NUMERIC if d.is_floating),
    "C": frozenset(d for d in _NUMERIC if d.is_complex),
    "Z": frozenset(d for d in _NUMERIC if d.is_integer),
    "I": frozenset([dtypes.int32, dtypes.int64]),
}
_VAR = re.compile(r"([TNRFECZI])\d*\Z")
_KINDS = {"int", "float", "bool", "str", "type", "shape", "tensor", "graph", "any"}


def allowed(var: str) -> frozenset[DType]:
    """The types that a type variable may stand for."""
    return _CLASSES[var[0]]


def _parse_arg(text: str, attrs: dict[str, Attr]) -> Arg:
    name, _, kind = (part.strip() for part in text.partition(":"))
    ref = kind.startswith("ref(")
    if ref:
        kind = kind[4:-1]
    kind, star, count = (part.strip() for part in kind.partition("*"))
    if kind == "any":
        return Arg(name, None, "", ref, True, True, count)
    if _VAR.match(kind) or kind in attrs:
        return Arg(name, None, kind, ref, bool(star), False, count)
    return Arg(name, dtypes.as_dtype(kind), "", ref, bool(star), False, count)


def _parse_attr(text: str) -> Attr:
    head, equals, default = (part.strip() for part in text.partition("="))
    name, _, kind = (part.strip() for part in head.partition(":"))
    optional = kind.endswith("?")
    kind = kind.rstrip("?")
    inner = kind[5:-1] if kind.startswith("list(") else kind
    if inner not in _KINDS:
        raise ValueError(f"Attribute '{name}' has no known kind: '{kind}'.")
    value: Any = None
    if equals:
        value = dtypes.as_dtype(default) if kind == "type" and default != "None" else ast.literal_eval(default)
    return Attr(name, kind, optional, not equals and not optional, value)


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    if "(" not in text and "[" not in text:
        return [p.strip() for p in text.split(",") if p.strip()]
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[last:i])
            last = i + 1
    parts.append(text[last:])
    return [p.strip() for p in parts if p.strip()]


def parse_signature(text: str) -> Signature:
    """Parse the signature language. Raises ValueError or TypeError for a mistake, at import of the declaration."""
    left, _, right = text.partition("->")
    ins, _, atts = left.partition(";")
    attrs = tuple(_parse_attr(a) for a in _split(atts))
    by_name = {a.name: a for a in attrs}
    inputs = tuple(_parse_arg(a, {}) for a in _split(ins))
    outputs = tuple(_parse_arg(a if ":" in a else f"output: {a}", by_name) for a in _split(right))
    return Signature(text, inputs, attrs, outputs)


@dataclasses.dataclass
class OpDef:
    """The one declaration of an op. One of `kernel`, `make`, `start` is set, or none for ops the compiler knows.

    See ``registry.op`` for what each field promises.
    """

    name: str
    signature: Signature
    shape: Callable[[Any], list[Any]]
    grad: Callable[..., Any] | NoGrad
    kernel: Callable[..., Any] | None = None
    make: Callable[..., Any] | None = None
    start: Callable[..., Any] | None = None
    samples: tuple[Sample, ...] = ()
    stateful: bool = False
    out: bool = False
    inplace: tuple[int, ...] = ()
    holds: bool = False
    builder: Callable[..., Any] | None = None
    module: str = ""  # that declares it

    def kernel_of(self, node: Any, env: Any) -> Callable[..., Any] | None:
        """The function that computes `node` on a device; None for ops that wait and those the compiler knows.

        What it gives has a shape and a type: a text alone, as numpy hands it out of an array, is made an array.
        """
        kernel = self.kernel if self.make is None else self.make(node, env)
        if kernel is None or all(d.base_dtype is not dtypes.string for d in node.dtypes):
            return kernel
        return _of_texts(kernel, len(node.dtypes) > 1)

    @property
    def elementwise(self) -> bool:
        """True if each element of the result depends on the elements at its place in the inputs, and nothing else.

        That is what ``out`` and ``inplace`` mean together with one of the shape rules of element-wise ops.
        """
        return self.out and bool(self.inplace) and self.shape in ELEMENTWISE


def _of_texts(kernel: Callable[..., Any], several: bool) -> Callable[..., Any]:
    def boxed(value: Any) -> Any:
        return np.array(value, object) if isinstance(value, bytes) else value

    def fn(*inputs: Any, **options: Any) -> Any:
        out = kernel(*inputs, **options)
        return tuple(map(boxed, out)) if several else boxed(out)

    return fn


#: Shape rules of element-wise ops; shape_rules enters them.
ELEMENTWISE: set[Callable[[Any], list[Any]]] = set()
#: Attribute of a node whose result is computed by its only reader (see plan/optimize/chains).
INLINE = "_inline"

_TABLE: dict[str, OpDef] = {}


def add(definition: OpDef) -> None:
    """Enter a declaration. Raises ValueError if the name is taken."""
    if definition.name in _TABLE:
        raise ValueError(f"Op '{definition.name}' is declared twice.")
    _TABLE[definition.name] = definition


def find(name: str) -> OpDef | None:
    """The declaration of an op type, or None."""
    return _TABLE.get(name)


def lookup(name: str) -> OpDef:
    """The declaration of an op type. Raises KeyError with the nearest names."""
    found = _TABLE.get(name)
    if found is None:
        near = difflib.get_close_matches(name, _TABLE, 1)
        raise KeyError(f"Op type '{name}' is not registered." + (f" Did you mean '{near[0]}'?" if near else ""))
    return found


def all_ops() -> list[OpDef]:
    """Every declaration, by name."""
    return [_TABLE[name] for name in sorted(_TABLE)]


def library_ops() -> list[OpDef]:
    """The declarations of this package, by name, without those of programs and tests that declare their own."""
    own = __name__.partition(".")[0] + "."
    return [definition for definition in all_ops() if definition.module.startswith(own)]
