"""`Layer`: a function with variables. The first call makes them, in a variable scope of the layer's own.

What a subclass says: `build(input_shape)` makes variables by `add_weight`, `call(inputs, ...)` makes the ops.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph, Tensor, get_default_graph
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import colocate_with, get_collection_ref, init_scope, name_scope
from dtfzmq.layers.naming import initializer as named_initializer
from dtfzmq.ops import array, nest
from dtfzmq.ops.cast import cast
from dtfzmq.variables.partitions import PartitionedVariable
from dtfzmq.variables.scope import VariableScope, get_variable, making, variable_scope
from dtfzmq.variables.variable import Variable

_NAMES = "__layer_names"


class InputSpec:
    """What a layer asks of one input: type, shape, rank, sizes of axes. None asks nothing."""

    def __init__(
        self, dtype: Any = None, shape: Any = None, ndim: int | None = None, max_ndim: int | None = None,
        min_ndim: int | None = None, axes: dict[int, Any] | None = None,
    ) -> None:  # fmt: skip
        self.dtype = None if dtype is None else dtypes.as_dtype(dtype).name
        self.shape = shape
        self.ndim = len(shape) if shape is not None else ndim
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.axes = {int(k): None if v is None else int(v) for k, v in (axes or {}).items()}

    def check(self, position: int, layer: str, given: Any) -> None:
        """Raise ValueError if the tensor `given` is none that this allows, as far as its static shape says.

        Where a rank is asked for, it must be known.
        """
        shape = given.get_shape()
        start = f"Input {position} of layer {layer} is incompatible with the layer: "
        rank = shape.ndims
        if rank is None:
            if self.ndim is None and self.max_ndim is None and self.min_ndim is None:
                return
            raise ValueError(
                f"{start}its rank is undefined, but the layer requires a defined rank. Give the placeholder a shape, "
                f"or call set_shape on {given.name}."
            )
        seen = f" Full shape received: {shape.as_list()}"
        if self.ndim is not None and rank != self.ndim:
            raise ValueError(f"{start}expected ndim={self.ndim}, found ndim={rank}.{seen}")
        if self.max_ndim is not None and rank > self.max_ndim:
            raise ValueError(f"{start}expected max_ndim={self.max_ndim}, found ndim={rank}.{seen}")
        if self.min_ndim is not None and rank < self.min_ndim:
            raise ValueError(f"{start}expected min_ndim={self.min_ndim}, found ndim={rank}.{seen}")
        if self.dtype is not None and given.dtype.base_dtype.name != self.dtype:
            raise ValueError(f"{start}expected dtype={self.dtype}, found dtype={given.dtype.base_dtype.name}")
        sizes = shape.as_list()
        for axis, wanted in self.axes.items():
            if wanted is not None and sizes[axis] not in (wanted, None):
                raise ValueError(f"{start}expected axis {axis} of input shape to have value {wanted} but received input"
                                 f" with shape {sizes}")  # fmt: skip
        if self.shape is not None and not as_shape(self.shape).is_compatible_with(shape):
            raise ValueError(f"{start}expected shape={tuple(self.shape)}, found shape={sizes}")


def snake_case(name: str) -> str:
    """BatchNormalization -> batch_normalization, GRUCell -> gru_cell, Conv2D -> conv2d."""
    parted = re.sub("([a-z])([A-Z])", r"\1_\2", re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", name)).lower()
    return "private" + parted if parted[0] == "_" else parted


def _unique_name(base: str) -> str:
    with making():
        counts: list[dict[str, int]] = get_collection_ref(_NAMES)
        if not counts:
            counts.append({})
        number = counts[0][base] = counts[0].get(base, 0) + 1
    return f"{base}_{number}"


class Layer:
    """Base of all layers. `layer(inputs)` builds it at the first call; later calls share the variables.

    `name` is the name of its variable scope; without one, the class's name in snake case, made unique in the scope in
    which the layer is first called. `dtype` is that of the first input unless given. Not safe for several threads.
    """

    def __init__(
        self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        scope = kwargs.pop("_scope", None)
        self._reuse = kwargs.pop("_reuse", None)
        self._activity_regularizer = kwargs.pop("activity_regularizer", None)
        kwargs.pop("autocast", None)
        if kwargs:
            raise TypeError(f"Keyword argument not understood: {next(iter(kwargs))}")
        self.trainable = trainable
        self.built = False
        self.stateful = False
        self.input_spec: Any = None
        self._dtype: DType | None = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
        self._trainable_weights: list[Any] = []
        self._non_trainable_weights: list[Any] = []
        # (value, whether it depends on inputs)
        self._losses: list[tuple[Any, bool]] = []
        self._updates: list[tuple[Any, bool]] = []
        self._graph: Graph = get_default_graph()
        base = snake_case(type(self).__name__)
        self._name: str = name if isinstance(name, str) and name else _unique_name(base)
        self._base_name: str = name.name if isinstance(name, VariableScope) else name or base
        self._scope: VariableScope | None = None
        self._current_scope: VariableScope | None = None
        self._takes_scope = "scope" in inspect.signature(self.call).parameters
        if scope:
            with variable_scope(scope) as captured:
                self._scope = captured

    # -- facts ------------------------------------------------------------------------------------------------------
    @property
    def name(self) -> str:
        return self._name

    @property
    def dtype(self) -> Any:
        """Type of the variables, or None before it is known."""
        return self._dtype

    @property
    def graph(self) -> Graph:
        """The graph in which the layer was made."""
        return self._graph

    @property
    def scope_name(self) -> str:
        """Name of the variable scope. Raises ValueError before the first call."""
        if self._scope is None:
            raise ValueError(
                f'No name available for layer scope because the layer "{self._name}" has not been used yet. The scope '
                "name is determined the first time the layer instance is called. You must therefore call the layer "
                "before querying `scope_name`."
            )
        return self._scope.name

    @property
    def activity_regularizer(self) -> Any:
        return self._activity_regularizer

    @property
    def trainable_weights(self) -> list[Any]:
        """Variables that are trained: none if the layer is not trainable."""
        return list(self._trainable_weights) if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        rest = list(self._non_trainable_weights)
        return rest if self.trainable else list(self._trainable_weights) + rest

    @property
    def weights(self) -> list[Any]:
        return self.trainable_weights + self.non_trainable_weights

    @property
    def trainable_variables(self) -> list[Any]:
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[Any]:
        return self.non_trainable_weights

    @property
    def variables(self) -> list[Any]:
        return self.weights

    @property
    def losses(self) -> list[Any]:
        """What `add_loss` was given, regularization of weights included."""
        return [value for value, _ in self._losses]

    @property
    def updates(self) -> list[Any]:
        """What `add_update` was given: ops that a training step has to run as well."""
        return [value for value, _ in self._updates] if self.trainable or self.stateful else []

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """Losses that depend on inputs, or (for None) those that do not."""
        return [value for value, depends in self._losses if depends == (inputs is not None)]

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """Updates that depend on inputs, or (for None) those that do not."""
        return [value for value, depends in self._updates if depends == (inputs is not None)]

    def count_params(self) -> int:
        """The number of elements of all variables. Raises ValueError before the first call."""
        if not self.built:
            raise ValueError(f"You tried to call `count_params` on {self.name}, but the layer isn't built.")
        return sum(int(v.get_shape().num_elements() or 0) for v in self.weights)

    # -- what subclasses say and use --------------------------------------------------------------------------------
    def build(self, input_shape: Any) -> None:
        """Make the variables, given the static shape (or structure of shapes) of the inputs."""
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The ops of the layer."""
        return inputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the output for inputs of `input_shape`, as far as it is known."""
        return as_shape(input_shape)

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Keep losses, here and in the collection REGULARIZATION_LOSSES. `inputs` are what they depend on, if so."""
        made = [loss() if callable(loss) else loss for loss in nest.flatten(losses)]
        for loss in made:
            if loss is not None:
                self._losses.append((loss, inputs is not None))
        _add_new(GraphKeys.REGULARIZATION_LOSSES, [loss for loss in made if loss is not None])

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Keep ops that training has to run; the call adds them to the collection UPDATE_OPS."""
        self._updates.extend((update, inputs is not None) for update in nest.flatten(updates))

    def add_weight(
        self, name: str, shape: Any, dtype: Any = None, initializer: Any = None,
        regularizer: Callable[[Any], Any] | None = None, trainable: bool | None = True,
        constraint: Callable[[Any], Any] | None = None, use_resource: bool | None = None, synchronization: Any = None,
        aggregation: Any = None, partitioner: Any = None,
    ) -> Any:  # fmt: skip
        """The variable `name` in the layer's scope, made or found again as that reuses.

        `regularizer` of a new one gives a loss, in REGULARIZATION_LOSSES, beside what the scope's regularizer does.
        """
        wanted = dtype if dtype is not None else self._dtype or dtypes.float32
        self._set_scope(None)
        reuse = True if self.built else self._reuse
        with init_scope():
            before = get_default_graph().version
        with variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as scope:
            self._current_scope = scope
            with name_scope(scope.original_name_scope):
                first = named_initializer(initializer)
                made = get_variable(
                    name, shape, dtype=wanted, initializer=scope.initializer if first is None else first,
                    trainable=bool(trainable is None or trainable) and self.trainable, constraint=constraint,
                    partitioner=partitioner, use_resource=use_resource,
                )  # fmt: skip
                if regularizer is not None and _made_after(made, before):
                    self._regularize(name, made, regularizer)
        trained = bool(getattr(made, "trainable", trainable is None or trainable)) and trainable is not False
        kept = self._trainable_weights if trained else self._non_trainable_weights
        if all(made is not other for other in kept):
            kept.append(made)
        return made

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """`add_weight`, under its older name."""
        return self.add_weight(*args, **kwargs)

    def _regularize(self, name: str, variable: Any, regularizer: Callable[[Any], Any]) -> None:
        parts = list(variable) if isinstance(variable, PartitionedVariable) else [variable]
        for part in parts:
            with init_scope(), colocate_with(part.op), name_scope(name + "/Regularizer"):
                loss = regularizer(part)
            self.add_loss(loss)

    # -- calling ----------------------------------------------------------------------------------------------------
    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Build at the first call, then the ops of `call`. `scope` names the variable scope, at the first call."""
        self._set_scope(kwargs.pop("scope", None))
        reuse = True if self.built else self._reuse
        before = len(self._updates)
        with variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as scope:
            self._current_scope = scope
            if self._takes_scope:
                kwargs["scope"] = scope
            with name_scope(scope.original_name_scope):
                inputs = nest.map_structure(_as_tensor, inputs)
                self._check(inputs)
                self._maybe_build(inputs)
                outputs = self.call(inputs, *args, **kwargs)
                if outputs is None:
                    raise ValueError(
                        f"A layer's `call` method should return a Tensor or a list of Tensors, not None (layer: "
                        f"{self.name})."
                    )
                if self._activity_regularizer is not None:
                    self._regularize_activity(outputs, inputs)
        _add_new(GraphKeys.UPDATE_OPS, [update for update, _ in self._updates[before:]])
        return outputs

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """`layer(inputs, ...)`, in words."""
        return self(inputs, *args, **kwargs)

    def _set_scope(self, scope: Any) -> None:
        with making():
            if self._scope is not None:
                return
            if self._reuse:
                with variable_scope(self._base_name if scope is None else scope) as captured:
                    self._scope = captured
            else:
                with variable_scope(scope, default_name=self._base_name) as captured:
                    self._scope = captured

    def _check(self, inputs: Any) -> None:
        if self.input_spec is None:
            return
        given = nest.flatten(inputs)
        specs = nest.flatten(self.input_spec)
        if len(specs) != len(given):
            raise ValueError(f"Layer {self.name} expects {len(specs)} inputs, but it received {len(given)} of them.")
        for position, (tensor, spec) in enumerate(zip(given, specs)):
            if spec is not None:
                spec.check(position, self.name, tensor)

    def _maybe_build(self, inputs: Any) -> None:
        with making():
            if self.built:
                return
            flat = nest.flatten(inputs)
            if self._dtype is None and flat and hasattr(flat[0], "dtype"):
                self._dtype = flat[0].dtype.base_dtype
            self.build(nest.map_structure(_shape_of, inputs))
            self.built = True

    def _regularize_activity(self, outputs: Any, inputs: Any) -> None:
        for output in nest.flatten(outputs):
            with name_scope("ActivityRegularizer"):
                loss = self._activity_regularizer(output)
                batch = cast(array.shape(output)[0], loss.dtype.base_dtype)
                self.add_loss(loss / batch, inputs=inputs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Layer:
        """A layer of its own with the same settings. What belongs to the graph is shared."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for key, value in self.__dict__.items():
            shared = key in ("_graph", "_scope", "_current_scope") or isinstance(value, (Tensor, Variable))
            setattr(made, key, value if shared else copy.deepcopy(value, memo))
        return made


def _as_tensor(value: Any) -> Any:
    """Arrays and numbers become tensors; what stands for a tensor already stays."""
    if isinstance(value, Tensor) or hasattr(value, "get_shape") or value is None:
        return value
    return convert_to_tensor(value)


def _shape_of(value: Any) -> TensorShape:
    found: TensorShape = value.get_shape() if hasattr(value, "get_shape") else TensorShape(None)
    return found


def _made_after(variable: Any, version: int) -> bool:
    first = next(iter(variable)) if isinstance(variable, PartitionedVariable) else variable
    return bool(first.op._id >= version)


def _add_new(key: str, values: list[Any]) -> None:
    """Add what is not in the collection yet (compared by identity)."""
    if not values:
        return
    with making():
        kept = get_collection_ref(key)
        there = {id(v) for v in kept}
        kept.extend(v for v in values if id(v) not in there)
