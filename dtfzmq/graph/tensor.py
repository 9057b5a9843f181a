"""Operation and Tensor: what a graph is made of. Both are made by ``Graph.create_op`` alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dtfzmq.base import names
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import UNKNOWN, TensorShape, as_shape
from dtfzmq.graph.node import Node

if TYPE_CHECKING:
    from dtfzmq.graph.graph import Graph


class Tensor:
    """One output of an operation: a symbol, not a value. Hash and equality are identity, as in TensorFlow 1.

    `dtype` is the element type (a reference type for variables), `shape` what is known statically. Arithmetic,
    comparison and indexing operators are put on by the op library.
    """

    __slots__ = ("__weakref__", "_consumers", "_shape", "dtype", "op", "value_index")
    __array_priority__ = 100  # numpy on the left hands the operator over

    def __init__(self, op: Operation, value_index: int, dtype: DType, shape: TensorShape) -> None:
        self.op = op
        self.value_index = value_index
        self.dtype = dtype
        self._shape = shape
        self._consumers: list[Operation] = []

    @property
    def name(self) -> str:
        """``op_name:index``."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def graph(self) -> Graph:
        """The graph of its operation."""
        return self.op.graph

    @property
    def device(self) -> str:
        """The device asked for, as written; "" if none."""
        return self.op.device

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """The static shape."""
        return self._shape

    def set_shape(self, shape: Any) -> None:
        """Add to what is known statically. Raises ValueError if it contradicts."""
        self._shape = self._shape.merge_with(as_shape(shape))

    def consumers(self) -> list[Operation]:
        """The operations that take it as an input."""
        return list(self._consumers)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """``session.run(self, feed_dict)``, in the default session if none is given. Raises ValueError without one."""
        return _session(session, "evaluate tensor", "eval").run(self, feed_dict)

    if TYPE_CHECKING:  # put on by the op library
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __getitem__(self, key: Any) -> Tensor: ...
        def assign(self, value: Any, name: str | None = None) -> Tensor: ...

    @classmethod
    def _override_operator(cls, operator: str, fn: Callable[..., Any]) -> None:
        setattr(cls, operator, fn)

    def __iter__(self) -> Any:
        raise TypeError("'Tensor' object is not iterable.")

    def __len__(self) -> int:
        raise TypeError("object of type 'Tensor' has no len(); use tf.shape or the static shape.")

    def __bool__(self) -> bool:
        raise TypeError(
            "Using a `tf.Tensor` as a Python `bool` is not allowed. Use `if t is not None:` instead of `if t:` to test"
            " if a tensor is defined, and use TensorFlow ops such as tf.cond to execute subgraphs conditioned on the"
            " value of a tensor."
        )

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self._shape} dtype={self.dtype.name}>"

    def __str__(self) -> str:
        shape = "" if self._shape.ndims is None else f", shape={self._shape}"
        return f'Tensor("{self.name}"{shape}, dtype={self.dtype.name}' + (
            f", device={self.device})" if self.device else ")"
        )


_default_session: Callable[[], Any] = lambda: None


def set_default_session_finder(find: Callable[[], Any]) -> None:
    """The session floor says here how the default session is found, so that ``eval`` and ``run`` need not know it."""
    global _default_session
    _default_session = find


def _session(session: Any, what: str, method: str) -> Any:
    found = session if session is not None else _default_session()
    if found is None:
        raise ValueError(
            f"Cannot {what} using `{method}()`: No default session is registered. Use `with sess.as_default()` or"
            f" pass an explicit session to `{method}(session=sess)`"
        )
    return found


class Operation:
    """One operation of a graph. Everything but device, control inputs and attributes is fixed at creation."""

    __slots__ = (
        "__weakref__",
        "_control",
        "_device",
        "_id",
        "attrs",
        "graph",
        "inputs",
        "name",
        "outputs",
        "type",
        "where",
    )

    def __init__(
        self,
        graph: Graph,
        number: int,
        kind: str,
        name: str,
        inputs: tuple[Tensor, ...],
        control: tuple[Operation, ...],
        attrs: dict[str, Any],
        dtypes: Sequence[DType],
        where: str,
    ) -> None:
        self.graph = graph
        self._id = number
        self.type = kind
        self.name = name
        self.inputs = inputs
        self._control = control
        self._device = ""
        self.attrs = attrs
        self.outputs = [Tensor(self, i, dtype, UNKNOWN) for i, dtype in enumerate(dtypes)]
        self.where = where

    @property
    def control_inputs(self) -> list[Operation]:
        """Operations that must have run before this one."""
        return list(self._control)

    @property
    def device(self) -> str:
        """The device asked for, as written; "" if none."""
        return self._device

    def _set_device(self, device: Any) -> None:
        self._device = device_text(device)

    def _set_shapes(self, shapes: Sequence[Any]) -> None:
        for output, shape in zip(self.outputs, shapes):
            output._shape = as_shape(shape)

    @property
    def node_def(self) -> Node:
        """The lean form, with sources numbered as in this graph."""
        return Node(
            self.name,
            self.type,
            tuple((t.op._id, t.value_index) for t in self.inputs),
            tuple(op._id for op in self._control),
            self._device,
            self.attrs,
            tuple(t.dtype for t in self.outputs),
        )

    @property
    def traceback(self) -> str:
        """``file:line`` of the program's statement that made it."""
        return self.where

    def get_attr(self, name: str) -> Any:
        """The value of an attribute. Raises ValueError if there is none of that name."""
        try:
            return self.attrs[name]
        except KeyError:
            raise ValueError(f"Operation '{self.name}' has no attr named '{name}'.") from None

    def values(self) -> tuple[Tensor, ...]:
        """The outputs."""
        return tuple(self.outputs)

    def colocation_groups(self) -> list[bytes]:
        """The groups that it belongs to, ``b"loc:@name"``; its own by default."""
        groups = self.attrs.get("_class")
        return [g.encode() for g in groups] if groups else [f"loc:@{self.name}".encode()]

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """``session.run(self, feed_dict)``, in the default session if none is given. Raises ValueError without one."""
        _session(session, "execute operation", "run").run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"

    def __str__(self) -> str:
        sources = ", ".join(t.name for t in self.inputs)
        return f'name: "{self.name}" op: "{self.type}" inputs: [{sources}] device: "{self._device}"'


def device_text(device: Any) -> str:
    """The canonical text of a device given as text, DeviceSpec or None. Raises ValueError if malformed."""
    if device is None:
        return ""
    text = device if isinstance(device, str) else device.to_string()
    return names.parse_device(text).text()
