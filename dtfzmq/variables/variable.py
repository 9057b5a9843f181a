"""`Variable`: a named value that lives on a task between steps.

The object is a handle in the graph: an op `VariableV2` with a reference output, an `Assign` that gives the first
value, and a read colocated with the variable. The value itself lives in the resource manager of the device, under
the container and the node's name, so equal names on one task are one variable for every session and graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape, as_shape, unknown_shape
from dtfzmq.graph import convert
from dtfzmq.graph.graph import Graph, Operation, Tensor, get_default_graph
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import (
    add_to_collections,
    colocate_with,
    control_dependencies,
    device,
    init_scope,
    name_scope,
)
from dtfzmq.ops import scatter_nd, slicing, state
from dtfzmq.ops.constants import identity
from dtfzmq.variables.guard import guarded
from dtfzmq.variables.operators import ReadsFirst


class _SaveSliceInfo:
    """Which part of a partitioned variable a variable is: full name and shape, offset and shape of the part."""

    def __init__(
        self,
        full_name: str | None = None,
        full_shape: list[int] | None = None,
        var_offset: list[int] | None = None,
        var_shape: list[int] | None = None,
    ) -> None:
        self.full_name = full_name
        self.full_shape = full_shape
        self.var_offset = var_offset
        self.var_shape = var_shape

    @property
    def spec(self) -> str:
        """'10 4 0,5:0,4': full shape, then offset,length for each dimension."""
        full = " ".join(str(d) for d in self.full_shape or ())
        parts = ":".join(f"{o},{s}" for o, s in zip(self.var_offset or (), self.var_shape or (), strict=True))
        return f"{full} {parts}"


class Variable(ReadsFirst):
    """A variable of the default graph, TensorFlow 1's reference kind.

    `initial_value` is a tensor, anything convertible to one, or a callable without arguments that returns it (then
    `dtype` must be given; the value is built beside the variable). Its shape must be known unless
    `validate_shape=False`. Variables hash and compare by identity; arithmetic on one reads it first.
    """

    SaveSliceInfo = _SaveSliceInfo

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = True,
        collections: Iterable[str] | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: str | None = None,
        constraint: Callable[[Any], Any] | None = None,
        use_resource: bool | None = None,
        synchronization: Any = None,
        aggregation: Any = None,
        shape: Any = None,
    ) -> None:
        if variable_def is not None or import_scope is not None:
            raise ValueError("variable_def and import_scope are not supported: build the variable from a value.")
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        if constraint is not None and not callable(constraint):
            raise ValueError("The `constraint` argument must be a callable.")
        keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else collections
        if not isinstance(keys, (list, tuple, set)):
            raise ValueError(
                f"collections argument to Variable constructor must be a list, tuple, or set. Got {keys} of type "
                f"{type(keys)}"
            )
        keys = list(keys)
        self._trainable = True if trainable is None else bool(trainable)
        if self._trainable and GraphKeys.TRAINABLE_VARIABLES not in keys:
            keys.append(GraphKeys.TRAINABLE_VARIABLES)
        self._constraint = constraint
        self._save_slice_info: _SaveSliceInfo | None = None
        wanted = expected_shape if shape is None else shape
        with init_scope(), control_dependencies(None):
            self._build(initial_value, name, dtype, validate_shape, wanted, caching_device)
        add_to_collections(keys, self)

    def _build(
        self, initial_value: Any, name: str | None, dtype: Any, validate_shape: bool, wanted: Any, caching_device: Any
    ) -> None:
        from_function = callable(initial_value)
        with name_scope(name, "Variable", [] if from_function else [initial_value]) as scope:
            op_name = scope.rstrip("/")
            if from_function:
                # the first value is made where the variable lives, whatever device scope is in force
                with get_default_graph()._attr_scoped({"_class": [f"loc:@{op_name}"]}):
                    with name_scope("Initializer"), device(None):
                        self._initial_value = convert.convert_to_tensor(
                            initial_value(), name="initial_value", dtype=dtype
                        )
            else:
                self._initial_value = convert.convert_to_tensor(initial_value, name="initial_value", dtype=dtype)
            if self._initial_value.dtype.is_ref:
                self._initial_value = identity(self._initial_value)
            value_shape = self._initial_value.get_shape()
            if validate_shape and not value_shape.is_fully_defined():
                raise ValueError(f"initial_value must have a shape specified: {self._initial_value}")
            if wanted is not None:
                value_shape.assert_is_compatible_with(as_shape(wanted))
            shape = value_shape if validate_shape else unknown_shape()
            graph = get_default_graph()
            self._variable: Tensor = state.variable(
                shape=shape, dtype=self._initial_value.dtype.base_dtype, container=graph._container, name=scope
            )
            self._initializer_op: Operation = state.assign(
                self._variable, guarded(self._initial_value, _variable_of), validate_shape=validate_shape, name="Assign"
            ).op
            self._caching_device = caching_device
            if caching_device is not None:
                with device(caching_device):
                    self._snapshot = identity(self._variable, name="read")
            else:
                with colocate_with(self._variable.op):
                    self._snapshot = identity(self._variable, name="read")

    # -- identity and static facts ----------------------------------------------------------------------------------
    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.get_shape()} dtype={self.dtype.name}>"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __iter__(self) -> NoReturn:
        raise TypeError("'Variable' object is not iterable.")

    @property
    def name(self) -> str:
        """Name of the reference tensor, e.g. 'w:0'."""
        return self._variable.name

    @property
    def _shared_name(self) -> str:
        return self.op.name

    @property
    def op(self) -> Operation:
        """The `VariableV2` op."""
        return self._variable.op

    @property
    def graph(self) -> Graph:
        return self._variable.graph

    @property
    def device(self) -> str:
        """Device as asked for in the graph, e.g. '/job:ps/task:0'; '' if none."""
        return self._variable.device

    @property
    def dtype(self) -> DType:
        """The reference dtype, e.g. `float32_ref`."""
        return self._variable.dtype

    @property
    def shape(self) -> TensorShape:
        return self._variable.get_shape()

    def get_shape(self) -> TensorShape:
        """Static shape of the value."""
        return self._variable.get_shape()

    def set_shape(self, shape: Any) -> None:
        """Refine the static shape of the variable and of its read."""
        self._variable.set_shape(shape)
        self.value().set_shape(shape)

    @property
    def trainable(self) -> bool:
        return self._trainable

    @property
    def constraint(self) -> Callable[[Any], Any] | None:
        """Projection that optimizers apply after each update, or None."""
        return self._constraint

    @property
    def initializer(self) -> Operation:
        """The op that gives the first value."""
        return self._initializer_op

    @property
    def initial_value(self) -> Tensor:
        return self._initial_value

    # -- reading ----------------------------------------------------------------------------------------------------
    def value(self) -> Tensor:
        """The read made at construction: it may be shared, and run before or after an update of the same step."""
        return self._snapshot

    def read_value(self) -> Tensor:
        """A fresh read that obeys the control dependencies in force."""
        return identity(self._variable, name="read")

    def _ref(self) -> Tensor:
        return self._variable

    def _as_graph_element(self) -> Tensor:
        return self._variable

    def initialized_value(self) -> Tensor:
        """The value, or the initial value if the variable has none yet."""
        with init_scope():
            return state.initialized_value(self._variable, self._initial_value, name="initialized_value")

    def eval(self, session: Any = None) -> Any:
        """The value as numpy, by the given or default session."""
        return self._variable.eval(session=session)

    # -- updating ---------------------------------------------------------------------------------------------------
    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """An op that replaces the value; its output is a reference to the variable."""
        made = state.assign(self._variable, value, use_locking=use_locking, name=name)
        return made if read_value else made.op

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """An op that adds `delta`, exactly also when many run at once."""
        made = state.assign_add(self._variable, delta, use_locking=use_locking, name=name)
        return made if read_value else made.op

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """An op that subtracts `delta`, exactly also when many run at once."""
        made = state.assign_sub(self._variable, delta, use_locking=use_locking, name=name)
        return made if read_value else made.op

    def scatter_update(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Replace the rows `sparse_delta.indices`."""
        return self._scatter(state.scatter_update, sparse_delta, use_locking, name)

    def scatter_add(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Add to the rows `sparse_delta.indices`; repeated indices add up."""
        return self._scatter(state.scatter_add, sparse_delta, use_locking, name)

    def scatter_sub(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Subtract from the rows `sparse_delta.indices`; repeated indices add up."""
        return self._scatter(state.scatter_sub, sparse_delta, use_locking, name)

    def scatter_mul(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Multiply the rows `sparse_delta.indices`; repeated indices multiply on."""
        return self._scatter(state.scatter_mul, sparse_delta, use_locking, name)

    def scatter_div(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Divide the rows `sparse_delta.indices`; repeated indices divide on."""
        return self._scatter(state.scatter_div, sparse_delta, use_locking, name)

    def scatter_min(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Lower the rows `sparse_delta.indices` to what is given where that is less."""
        return self._scatter(state.scatter_min, sparse_delta, use_locking, name)

    def scatter_max(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Raise the rows `sparse_delta.indices` to what is given where that is more."""
        return self._scatter(state.scatter_max, sparse_delta, use_locking, name)

    def batch_scatter_update(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> Tensor:
        """Replace rows within each entry of the first axes; see tf.batch_scatter_update."""
        return self._scatter(scatter_nd.batch_scatter_update, sparse_delta, use_locking, name)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        """Replace the elements or slices at ``indices[i, :]`` by ``updates[i]``."""
        return scatter_nd.scatter_nd_update(self._variable, indices, updates, name=name)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        """Add ``updates[i]`` at ``indices[i, :]``; repeats add up."""
        return scatter_nd.scatter_nd_add(self._variable, indices, updates, name=name)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        """Subtract ``updates[i]`` at ``indices[i, :]``; repeats add up."""
        return scatter_nd.scatter_nd_sub(self._variable, indices, updates, name=name)

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """The rows `indices`."""
        return slicing.gather(self._variable, indices, name=name)

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements or slices at ``indices[i, :]``."""
        return slicing.gather_nd(self._variable, indices, name=name)

    def _scatter(
        self, make: Callable[..., Tensor], delta: IndexedSlices, use_locking: bool, name: str | None
    ) -> Tensor:
        if not isinstance(delta, IndexedSlices):
            raise TypeError(f"sparse_delta is not IndexedSlices: {delta}")
        return make(self._variable, delta.indices, delta.values, use_locking=use_locking, name=name)

    def count_up_to(self, limit: int) -> Tensor:
        """An op that adds one until `limit`, then fails with OutOfRangeError; its output is the value before."""
        return state.count_up_to(self._variable, limit=limit)

    def load(self, value: Any, session: Any = None) -> None:
        """Set the value from Python, by the given or default session, without adding to the graph."""
        self._initializer_op.run({self._initializer_op.inputs[1]: value}, session)

    # -- partitions -------------------------------------------------------------------------------------------------
    def _set_save_slice_info(self, info: _SaveSliceInfo) -> None:
        self._save_slice_info = info

    def _get_save_slice_info(self) -> _SaveSliceInfo | None:
        return self._save_slice_info

    def experimental_ref(self) -> Variable:
        """The variable itself, which is hashable here."""
        return self


def _variable_of(op: Operation) -> Variable | None:
    """The variable behind a `VariableV2` op, if the graph's collections hold it."""
    for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES):
        for variable in op.graph.get_collection(key):
            if isinstance(variable, Variable) and variable.op is op:
                return variable
    return None


def _to_tensor(value: Variable, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError(
            f"Incompatible type conversion requested to type '{dtypes.as_dtype(dtype).name}' for variable of type "
            f"'{value.dtype.name}'"
        )
    return value._ref() if as_ref else value.value()


convert.register_tensor_conversion_function(Variable, _to_tensor)
RefVariable = Variable
VariableV1 = Variable
