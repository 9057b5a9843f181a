"""The store behind `get_variable`: the variables of one graph by full name."""

from __future__ import annotations

import enum
import functools
import inspect
import threading
from collections.abc import Callable, Iterable
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import as_shape
from dtfzmq.graph import convert
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import add_to_collection, colocate_with, init_scope, name_scope
from dtfzmq.ops import slicing
from dtfzmq.variables import partitions
from dtfzmq.variables.initializers import GlorotUniform, Zeros
from dtfzmq.variables.variable import Variable


class ReuseMode(enum.Enum):
    """`AUTO_REUSE`: find the variable if its name is known, make it otherwise."""

    AUTO_REUSE = 1


AUTO_REUSE = ReuseMode.AUTO_REUSE
Getter = Callable[..., Any]


def default_variable_creator(initial_value: Any, **settings: Any) -> Variable:
    """Makes a variable unless `variable_creator_scope` put other creators before this one."""
    settings.pop("use_resource", None)
    return Variable(initial_value, **settings)


class OpenScopes(threading.local):
    """Each thread's own: the variable scope and creators in force, and how often each scope name was opened.

    `current` is a `VariableScope`; the module of scopes sets it, also the first time.
    """

    def __init__(self) -> None:
        self.current: Any = None
        self.creators: list[Callable[..., Any]] = []
        self.counts: dict[str, int] = {}
        # scopes in the order in which they were opened, without those inside of closed ones
        self._opened: list[str] = []

    def open(self, name: str) -> int:
        """Count the scope; returns the mark with which its subscopes are closed."""
        self.counts[name] = self.counts.get(name, 0) + 1
        self._opened.append(name)
        return len(self._opened)

    def close_inside(self, mark: int) -> None:
        """Forget the counts of scopes opened since `mark`: default names start again when it is entered again."""
        for name in self._opened[mark:]:
            self.counts[name] = 0
        del self._opened[mark:]

    def unique(self, prefix: str) -> str:
        """`prefix`, or the first of prefix_1, prefix_2 ... that was not opened inside the current scope."""
        base = f"{self.current.name}/{prefix}" if self.current.name else prefix
        if not self.counts.get(base, 0):
            return prefix
        number = 1
        while self.counts.get(f"{base}_{number}", 0):
            number += 1
        return f"{prefix}_{number}"


class VariableStore:
    """Variables of one graph by full name, and the scopes in force in each thread.

    `lock` is held from the look-up of a name to its entry, also by others that look up and make variables. It is
    re-entrant, since initializers and getters may make variables, and taken before a graph's own lock, never after.
    """

    def __init__(self) -> None:
        self.vars: dict[str, Variable] = {}
        self.partitioned: dict[str, partitions.PartitionedVariable] = {}
        self.scopes = OpenScopes()
        self.lock = threading.RLock()

    def get_variable(
        self,
        name: str,
        *,
        shape: Any,
        dtype: Any,
        initializer: Any,
        regularizer: Callable[[Any], Any] | None,
        reuse: bool | ReuseMode | None,
        custom_getter: Getter | None,
        partitioner: Callable[..., Any] | None,
        **rest: Any,
    ) -> Any:
        """The variable of this full name, made or found as `reuse` says, through `custom_getter` if there is one."""
        known: dict[str, Any] = {
            "shape": shape,
            "dtype": dtype,
            "initializer": initializer,
            "regularizer": regularizer,
            "reuse": reuse,
            "partitioner": partitioner,
            **rest,
        }
        if custom_getter is None:
            return self._get(name, **known)
        return custom_getter(getter=self._get, name=name, **known)

    def _get(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        initializer: Any = None,
        regularizer: Callable[[Any], Any] | None = None,
        reuse: bool | ReuseMode | None = None,
        trainable: bool | None = None,
        collections: Iterable[str] | None = None,
        caching_device: Any = None,
        partitioner: Callable[..., Any] | None = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        constraint: Callable[[Any], Any] | None = None,
        **_: Any,
    ) -> Any:
        scalar = isinstance(shape, (list, tuple)) and not shape
        rest: dict[str, Any] = {
            "trainable": trainable,
            "collections": collections,
            "caching_device": caching_device,
            "validate_shape": validate_shape,
            "constraint": constraint,
            "use_resource": use_resource,
        }
        if partitioner is not None and not callable(partitioner):
            raise ValueError(f"Partitioner must be callable, but received: {partitioner}")
        with self.lock:
            if (partitioner is not None and not scalar) or (reuse is True and name in self.partitioned):
                return self._get_partitioned(name, shape, dtype, initializer, regularizer, reuse, partitioner, rest)
            if f"{name}/part_0" in self.vars:
                raise ValueError(
                    "No partitioner was provided, but a partitioned version of the variable was found: "
                    f"{name}/part_0. Perhaps a variable of the same name was already created with partitioning?"
                )
            return self._get_single(name, shape, dtype, initializer, regularizer, reuse, None, rest)

    def _found(self, name: str, found: Any, shape: Any, dtype: Any, reuse: bool | ReuseMode | None) -> Any:
        if reuse is False:
            raise ValueError(
                f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE "
                "in VarScope?"
            )
        if not as_shape(shape).is_compatible_with(found.get_shape()):
            raise ValueError(
                f"Trying to share variable {name}, but specified shape {as_shape(shape)} and found shape "
                f"{found.get_shape()}."
            )
        if not dtypes.as_dtype(dtype).is_compatible_with(found.dtype):
            raise ValueError(
                f"Trying to share variable {name}, but specified dtype {dtypes.as_dtype(dtype).name} and found dtype "
                f"{found.dtype.name}."
            )
        return found

    def _get_single(
        self,
        name: str,
        shape: Any,
        dtype: Any,
        initializer: Any,
        regularizer: Callable[[Any], Any] | None,
        reuse: bool | ReuseMode | None,
        partition_info: partitions.PartitionInfo | None,
        rest: dict[str, Any],
    ) -> Variable:
        from_value = initializer is not None and not callable(initializer)
        if shape is not None and from_value:
            raise ValueError("If initializer is a constant, do not specify shape.")
        wanted = dtypes.as_dtype(dtype)
        static = as_shape(shape)
        if name in self.vars:
            return self._found(name, self.vars[name], static, wanted, reuse)
        if reuse is True:
            raise ValueError(
                f"Variable {name} does not exist, or was not created with tf.get_variable(). Did you mean to set "
                "reuse=tf.AUTO_REUSE in VarScope?"
            )
        if initializer is None:
            initializer = _default_initializer(name, wanted)
            from_value = not callable(initializer)
        first: Any
        if from_value:
            first = initializer
        else:
            if inspect.isclass(initializer):
                initializer = initializer()
            if static.is_fully_defined():
                extra = _partition_argument(initializer, partition_info)
                first = functools.partial(initializer, static.as_list(), dtype=wanted, **extra)
            elif shape is None and not _takes_arguments(initializer):
                first = initializer
            else:
                raise ValueError(
                    f"Shape of a new variable ({name}) must be fully defined, but instead was {static}."
                )
        make: Callable[..., Any] = default_variable_creator
        for creator in self.scopes.creators:
            make = functools.partial(creator, make)
        variable: Variable = make(
            initial_value=first, name=name, dtype=None if from_value else wanted.base_dtype, **rest
        )
        self.vars[name] = variable
        if regularizer is not None:
            with colocate_with(variable.op), name_scope(name + "/Regularizer/"), init_scope():
                loss = regularizer(variable)
            if loss is not None:
                add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
        return variable

    def _get_partitioned(
        self,
        name: str,
        shape: Any,
        dtype: Any,
        initializer: Any,
        regularizer: Callable[[Any], Any] | None,
        reuse: bool | ReuseMode | None,
        partitioner: Callable[..., Any] | None,
        rest: dict[str, Any],
    ) -> partitions.PartitionedVariable:
        from_value = initializer is not None and not callable(initializer)
        if from_value:
            value = convert.convert_to_tensor(initializer)
            static = as_shape(shape) if shape is not None else value.get_shape()
            dtype = value.dtype.base_dtype
        else:
            static = as_shape(shape)
        if name in self.vars:
            raise ValueError(
                f"A partitioner was provided, but an unpartitioned version of the variable was found: {name}. Perhaps "
                "a variable of the same name was already created without partitioning?"
            )
        if name in self.partitioned:
            return self._found(name, self.partitioned[name], static, dtype, reuse)
        if reuse is True or partitioner is None:
            raise ValueError(
                f"PartitionedVariable {name} does not exist, or was not created with tf.get_variable(). Did you mean "
                "to set reuse=False or reuse=tf.AUTO_REUSE in VarScope?"
            )
        axis, parts = partitions.checked(partitioner, static, dtypes.as_dtype(dtype))
        if f"{name}/part_0" in self.vars and f"{name}/part_{parts - 1}" not in self.vars:
            raise ValueError(f"Partitioner returned a different partitioning than what was already found for {name}.")
        made: list[Variable] = []
        for index, (offset, size) in enumerate(partitions.slices(partitions.sizes(static), axis, parts)):
            info = partitions.PartitionInfo(full_shape=partitions.sizes(static), var_offset=offset)
            part_initializer: Any = initializer
            part_shape: list[int] | None = size
            if from_value:
                part_initializer, part_shape = slicing.slice(value, offset, size), None
            with name_scope(None):
                part = self._get_single(
                    f"{name}/part_{index}", part_shape, dtype, part_initializer, regularizer, reuse, info, rest
                )
            part._set_save_slice_info(Variable.SaveSliceInfo(name, partitions.sizes(static), offset, size))
            made.append(part)
        whole = partitions.PartitionedVariable(name, static, made[0].dtype.base_dtype, made, axis, parts)
        self.partitioned[name] = whole
        return whole


def _default_initializer(name: str, dtype: DType) -> Any:
    if dtype.is_floating:
        return GlorotUniform()
    if dtype.is_integer or dtype.is_complex or dtype is dtypes.bool_ or dtype is dtypes.string:
        return Zeros()
    raise ValueError(f"An initializer for variable {name} of {dtype} is required")


def _takes_arguments(function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    required = (p for p in signature.parameters.values() if p.default is p.empty)
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in required)


def _partition_argument(initializer: Callable[..., Any], info: partitions.PartitionInfo | None) -> dict[str, Any]:
    """Keyword arguments that tell `initializer` of its partition, if it can be told."""
    if info is None:
        return {}
    try:
        parameters = inspect.signature(initializer).parameters
    except (TypeError, ValueError):
        return {}
    takes = "partition_info" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return {"partition_info": info} if takes else {}
