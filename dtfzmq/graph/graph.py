"""Graph: the operations of a program, and the scopes in which they are made."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dtfzmq.base import absent, names
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import UNKNOWN
from dtfzmq.graph import opdef
from dtfzmq.graph.scoped import Controller, Scoped, Scopes
from dtfzmq.graph.tensor import Operation, Tensor, device_text

_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\-/]*\Z")
_SCOPE = re.compile(r"[A-Za-z0-9_.\-/]*\Z")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _where() -> str:
    """``file:line`` of the nearest frame outside this package."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Graph(Scoped):
    """A dataflow graph that only grows. Any number of threads may run it, and add operations to it.

    Scopes are each thread's own: names, devices, control inputs and the like; a thread begins outside of all. Source:
    TensorFlow 1's ``tf.Graph``.
    """

    #: In how many branches and bodies it lies, one in the other.
    depth = 0
    as_graph_def = absent.Lacking("Graph", "as_graph_def")

    def __init__(self) -> None:
        super().__init__()
        self._ops: list[Operation] = []
        self._by_name: dict[str, Operation] = {}
        self._names_in_use: dict[str, int] = {}
        self._seed: int | None = None
        self._op_seeds = itertools.count()
        self._finalized = False
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Operation] = set()
        self._lock = threading.RLock()
        self._scoped_state: dict[str, Any] = {}

    # -- what there is ------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of operations: grows with each."""
        return len(self._ops)

    @property
    def seed(self) -> int | None:
        """The graph-level random seed."""
        return self._seed

    @seed.setter
    def seed(self, seed: int | None) -> None:
        self._seed = seed

    def next_op_seed(self) -> int:
        """The seed of the next random op that has none of its own: 0, 1, 2, ... through the program's branches too."""
        return next(self._op_seeds)

    @property
    def finalized(self) -> bool:
        """True if no operation may be added."""
        return self._finalized

    def finalize(self) -> None:
        """Forbid further operations: making one raises RuntimeError."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    def get_operations(self) -> list[Operation]:
        """All operations, in the order of creation."""
        return list(self._ops)

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation of that name. Raises KeyError if there is none, TypeError if `name` is no text."""
        return self.as_graph_element(name, allow_tensor=False)

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor ``op:index``. Raises KeyError if there is none, ValueError for an operation's name."""
        return self.as_graph_element(name, allow_operation=False)

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """The operation or tensor of this graph that `obj` (one, a name, or something that stands for one) means.

        Raises KeyError for an unknown name, ValueError for an element of another graph, TypeError otherwise.
        """
        convert = getattr(obj, "_as_graph_element", None)
        if convert is not None:
            obj = convert()
        if isinstance(obj, Tensor) and allow_tensor or isinstance(obj, Operation) and allow_operation:
            if obj.graph is not self:
                raise ValueError(f"{obj} is not an element of this graph.")
            return obj
        wanted = " or ".join(["Tensor"] * allow_tensor + ["Operation"] * allow_operation)
        if not isinstance(obj, str):
            raise TypeError(f"Can not convert a {type(obj).__name__} into a {wanted}.")
        name, colon, index = obj.partition(":")
        op = self._by_name.get(name)
        if colon and allow_tensor:
            if op is None:
                raise KeyError(f"The name {obj!r} refers to a Tensor which does not exist. {self._near(name)}")
            if not index.isdecimal():
                raise ValueError(f"The name {obj!r} looks like a Tensor name, but is not a valid one.")
            if int(index) >= len(op.outputs):
                raise KeyError(
                    f"The name {obj!r} refers to a Tensor which does not exist. The operation, {name!r}, exists but"
                    f" only has {len(op.outputs)} outputs."
                )
            return op.outputs[int(index)]
        if colon:
            raise ValueError(f"Name {obj!r} appears to refer to a Tensor, not a Operation.")
        if not allow_operation:
            hint = f"Perhaps you meant to use '{name}:0'?" if op is not None else self._near(name)
            raise ValueError(
                f"The name {obj!r} refers to an Operation, not a Tensor. Tensor names are '<op>:<i>'. {hint}"
            )
        if op is None:
            raise KeyError(f"The name {obj!r} refers to an Operation not in the graph. {self._near(name)}")
        return op

    def _near(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._by_name, 1)
        return f"Did you mean '{near[0]}'?" if near else f"The operation, {name!r}, does not exist in the graph."

    def is_feedable(self, tensor: Tensor) -> bool:
        """True unless `prevent_feeding` named it."""
        return tensor not in self._unfeedable

    def prevent_feeding(self, tensor: Tensor) -> None:
        """Feeding this tensor raises ValueError."""
        self._unfeedable.add(tensor)

    def is_fetchable(self, item: Any) -> bool:
        """True unless `prevent_fetching` named it."""
        return (item.op if isinstance(item, Tensor) else item) not in self._unfetchable

    def prevent_fetching(self, op: Operation) -> None:
        """Fetching this operation raises ValueError."""
        self._unfetchable.add(op)

    # -- making operations --------------------------------------------------------------------------------------------

    def create_op(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        attrs: dict[str, Any] | None = None,
        dtypes: Sequence[DType] = (),
        name: str | None = None,
        shapes: Sequence[Any] | None = None,
    ) -> Operation:
        """Add one operation under the current scopes and return it.

        `shapes` are the static shapes of the outputs; without them the declaration's shape rule is asked. Raises
        RuntimeError if the graph is finalized, ValueError for a bad name, an input of another graph, or shapes that
        do not go together.
        """
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        scopes = self._scopes
        with self._lock:
            taken = tuple([t if t.op.graph is self else self.capture(t) for t in inputs])
            if name is None:
                name = kind
            if name and name[-1] == "/":
                full = name[:-1]
                self._names_in_use.setdefault(full.lower(), 1)
                if full in self._by_name:
                    full = self.unique_name(full.rpartition("/")[2])
            else:
                if not _NAME.match(name) and not (scopes.name and _SCOPE.match(name)) and name[0] != "_":
                    raise ValueError(f"'{name}' is not a valid scope name: letters, digits, '_', '.', '-', '/' only.")
                full = self.unique_name(name)
            control: tuple[Operation, ...] = ()
            if scopes.controllers:
                control = _control_for(scopes, {t.op for t in taken})
            if scopes.attrs:
                attrs = {**scopes.attrs, **(attrs or {})}
            if kind in scopes.gradients:
                attrs = {"_gradient_op_type": scopes.gradients[kind], **(attrs or {})}
            op = Operation(
                self, len(self._ops), kind, full, taken, control, attrs if attrs is not None else {}, dtypes, _where()
            )
            if shapes is not None:
                op._set_shapes(shapes)
            else:
                definition = opdef.find(kind)
                if definition is not None:
                    try:
                        op._set_shapes(definition.shape(op))
                    except ValueError as error:
                        raise ValueError(f"{error} (op '{kind}' named '{full}')") from None
            _place(scopes, op)
            self._ops.append(op)
            self._by_name[full] = op
            for t in taken:
                t._consumers.append(op)
            for controller in scopes.controllers:
                controller.seen.add(op)
            return op

    def capture(self, tensor: Tensor) -> Tensor:
        """A tensor of this graph that stands for one of another graph; only branches and bodies have such."""
        raise ValueError(f"{tensor} must be from the same graph as the operation that takes it.")

    def capture_control(self, op: Operation) -> Operation | None:
        """A control input of this graph that stands for `op` of another graph; None if there is none to add."""
        raise ValueError(f"{op!r} is not an element of this graph.")

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """`name` in the current name scope, with ``_1``, ``_2``... if it is taken (case apart)."""
        scope = self._scopes.name
        if scope:
            name = f"{scope}/{name}"
        key = name.lower()
        with self._lock:
            count = self._names_in_use.get(key, 0)
            if mark_as_used:
                self._names_in_use[key] = count + 1
            if count:
                base = key
                while key in self._names_in_use:
                    key = f"{base}_{count}"
                    count += 1
                if mark_as_used:
                    self._names_in_use[key] = 1
                name = f"{name}_{count - 1}"
        return name

    # -- scopes -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Make this the thread's default graph inside the block."""
        stack = _stacks.graphs
        stack.append(self)
        try:
            yield self
        finally:
            if stack[-1] is not self:
                raise AssertionError(f"Nesting violated for default stack of {type(self)} objects")
            stack.pop()

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefix names inside the block; yields the scope with a slash. "" or None: no scope; "a/": scope a again."""
        scopes = self._scopes
        before = scopes.name
        if name and not (_SCOPE if before else _NAME).match(name):
            raise ValueError(f"'{name}' is not a valid scope name")
        if not name:
            inner = ""
        elif name[-1] == "/":
            inner = name[:-1]
        else:
            inner = self.unique_name(name)
        scopes.name = inner
        try:
            yield inner + "/" if inner else ""
        finally:
            scopes.name = before

    @contextlib.contextmanager
    def device(self, spec: Any) -> Iterator[None]:
        """Ask for a device inside the block: text, DeviceSpec, a function of the Operation, None to forget outer ones.

        Inner scopes win field by field. Raises ValueError for malformed text.
        """
        entry = spec if spec is None or callable(spec) else device_text(spec)
        scopes = self._scopes
        before = scopes.device
        scopes.devices.append(entry)
        if entry is None:
            scopes.device = ""
        elif isinstance(entry, str):
            scopes.device = None if before is None else names.merge_devices(before, entry)
        else:
            scopes.device = None
        try:
            yield
        finally:
            scopes.devices.pop()
            scopes.device = before

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> Iterator[None]:
        """Operations made inside the block run after `control_inputs`; None forgets outer ones inside the block."""
        scopes = self._scopes
        if control_inputs is None:
            before, scopes.controllers = scopes.controllers, []
            try:
                yield
            finally:
                scopes.controllers = before
            return
        ops: dict[Operation, None] = {}
        for item in control_inputs:
            element = item if isinstance(item, (Tensor, Operation)) else _graph_element(item, self)
            op = element.op if isinstance(element, Tensor) else element
            own = op if op.graph is self else self.capture_control(op)
            if own is not None:
                ops[own] = None
        scopes.controllers.append(Controller(tuple(ops)))
        try:
            yield
        finally:
            scopes.controllers.pop()

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Operations made inside the block stand on the device of `op`, whatever scope they are in."""
        element = op if isinstance(op, (Tensor, Operation)) else _graph_element(op, self)
        target = element.op if isinstance(element, Tensor) else element
        if target.graph is not self:
            yield
            return
        scopes = self._scopes
        before = scopes.colocation
        scopes.colocation = [target] if ignore_existing else [*before, target]
        try:
            yield
        finally:
            scopes.colocation = before

    # -- exports ------------------------------------------------------------------------------------------------------

    def to_networkx(self) -> Any:
        """A ``networkx.MultiDiGraph``: nodes by name (``op``, ``device``), edges ``output``, ``input``, ``control``."""
        import networkx

        out = networkx.MultiDiGraph()
        for op in self._ops:
            out.add_node(op.name, op=op.type, device=op.device)
        for op in self._ops:
            for i, t in enumerate(op.inputs):
                out.add_edge(t.op.name, op.name, output=t.value_index, input=i, control=False)
            for source in op._control:
                out.add_edge(source.name, op.name, output=-1, input=-1, control=True)
        return out


def _control_for(scopes: Scopes, input_ops: set[Operation]) -> tuple[Operation, ...]:
    control: dict[Operation, None] = {}
    for controller in scopes.controllers:
        # What an input made in the same scope waited for, its consumer need not wait for again.
        if controller.seen.isdisjoint(input_ops):
            control.update(dict.fromkeys(op for op in controller.ops if op not in input_ops))
    return tuple(control)


def _place(scopes: Scopes, op: Operation) -> None:
    if scopes.device is not None:
        op._device = scopes.device
    else:
        for entry in reversed(scopes.devices):
            if entry is None:
                break
            if isinstance(entry, str):
                op._device = names.merge_devices(entry, op._device)
            else:
                op._device = device_text(entry(op))
    if scopes.colocation:
        groups = sorted({g.decode() for other in scopes.colocation for g in other.colocation_groups()})
        op.attrs = {**op.attrs, "_class": groups}
        op._device = scopes.colocation[-1]._device


def _graph_element(item: Any, graph: Graph) -> Any:
    convert = getattr(item, "_as_graph_element", None)
    return convert() if convert is not None else graph.as_graph_element(item)


class _Stacks(threading.local):
    """Per thread: the stack of default graphs."""

    def __init__(self) -> None:
        self.graphs: list[Graph] = []


_stacks = _Stacks()
_global_graph: list[Graph] = []


def get_default_graph() -> Graph:
    """The innermost ``as_default`` graph of this thread, else the one global graph of the process."""
    if _stacks.graphs:
        return _stacks.graphs[-1]
    if not _global_graph:
        _global_graph.append(Graph())
    return _global_graph[0]


def reset_default_graph() -> None:
    """Put a fresh global graph in place. Raises AssertionError inside an ``as_default`` block."""
    if _stacks.graphs:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs.")
    _global_graph[:] = [Graph()]


__all__ = ["UNKNOWN", "Graph", "Operation", "Tensor", "get_default_graph", "reset_default_graph"]
