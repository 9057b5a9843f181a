"""The value of a variable: reads are leases, updates never tear them.

`read` gives the live array. Whoever holds a reference to it (a slot of a plan, a fetch, a frame on its way out, a
view) has a lease; CPython's reference count says whether there is any. An update writes in place only while there is
none, otherwise into another buffer which then becomes the value. Readers never see a half-written array.
"""

from __future__ import annotations

import difflib
import functools
import re
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.runtime.resources import ResourceManager

# How many names an error compares with its own.
_COMPARED = 1000
_MOST_NAMED = 3
# What else may be wrong with a variable that is not as a graph says.
_LEFT = "If another program left a variable of this name there, tf.Session.reset(target) clears all that are left."
# What makes a name unique, which depends on the order in which graphs are built.
_NUMBER = re.compile(r"_\d+(?=/|\Z)")


class Busy(Exception):
    """A cell's lock is held elsewhere and this thread may not wait. Nothing was done; try again where one may wait."""


class _ThreadState(threading.local):
    may_not_wait = False


# The executor sets `may_not_wait` while it runs a plan on the baton.
thread_state = _ThreadState()


class VariableCell:
    """One variable. Any thread. Exact under concurrent updates: each is atomic, serialised by the cell's lock.

    Scalars are numpy scalars, everything else arrays that the cell allocated itself.
    """

    __slots__ = ("__weakref__", "_lock", "_others", "_spare", "_value", "dtype", "name", "shape")

    def __init__(
        self,
        name: str,
        dtype: DType,
        shape: tuple[int, ...] | None = None,
        others: Callable[[], Iterable[VariableCell]] = tuple,
    ) -> None:
        self.name = name
        # The variables of the same container, to name one that might be meant.
        self._others = others
        self.dtype = dtype.base_dtype
        # The shape that `assign` asks for; None: any.
        self.shape = shape
        self._lock = threading.Lock()
        # None: uninitialised, or taken out by an update in place, which holds the lock.
        self._value: Any = None
        self._spare: Any = None

    def read(self) -> Any:
        """The value, a lease. Raises FailedPreconditionError if uninitialised, Busy where one may not wait."""
        value = self._value
        if value is None:
            return self._read_waiting()
        return value

    def is_initialized(self) -> bool:
        """True if there is a value. Raises Busy where one may not wait."""
        if self._value is not None:
            return True
        self._acquire()
        try:
            return self._value is not None
        finally:
            self._lock.release()

    def assign(self, value: Any, validate_shape: bool = True) -> VariableCell:
        """Store a copy of `value`. Returns self.

        With `validate_shape`, raises InvalidArgumentError unless the value has the variable's shape; without, the
        variable takes the value's.
        """
        shape = value.shape
        self._acquire()
        try:
            if validate_shape and self.shape is not None and shape != self.shape:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    "Assign requires shapes of both tensors to match. "
                    f"lhs shape= {shape_text(self.shape)} rhs shape= {shape_text(shape)}. {_LEFT}",
                )
            if shape == () and value.dtype != object:
                self._value = value[()]
            else:
                target = self._target(shape, value.dtype)
                np.copyto(target, value)
                self._value = target
            self.shape = shape
        finally:
            self._lock.release()
        return self

    def update(self, fn: Callable[..., Any], *args: Any) -> VariableCell:
        """Make `fn(old, *args, out=target)` the value, `target` being the old array itself or another. Returns self.

        `fn` computes element by element (a ufunc), so that it may write over what it reads; its result must have the
        old shape. A scalar becomes `fn(old, *args)`. Raises FailedPreconditionError if uninitialised.
        """
        self._acquire()
        try:
            value = self._value
            if value is None:
                raise self._uninitialized()
            if type(value) is not np.ndarray:
                new = fn(value, *args)
                if np.ndim(new):
                    raise self._mismatch(new)
                self._value = new
                return self
            for arg in args:
                if np.ndim(arg) and arg.shape != value.shape:
                    raise self._mismatch(arg)
            old = value
            del value
            shape, dtype = old.shape, old.dtype
            del old
            target = self._target(shape, dtype)
            old = self._value
            try:
                fn(target if old is None else old, *args, out=target)
            except BaseException:
                if old is None:
                    self._value = target
                raise
            self._value = target
        finally:
            self._lock.release()
        return self

    def modify(self, fn: Callable[..., None], *args: Any) -> VariableCell:
        """Call `fn(array, *args)`, which writes parts of `array` in place (scatter). Returns self.

        A leased array is copied first. `fn` checks its arguments before it writes. Raises FailedPreconditionError if
        uninitialised.
        """
        self._acquire()
        try:
            value = self._value
            if value is None:
                raise self._uninitialized()
            if type(value) is not np.ndarray:
                scalar = np.array(value)
                fn(scalar, *args)
                self._value = scalar[()]
                return self
            shape, dtype = value.shape, value.dtype
            del value
            target = self._target(shape, dtype)
            if self._value is not None:
                np.copyto(target, self._value)
            try:
                fn(target, *args)
            finally:
                if self._value is None:
                    self._value = target
            self._value = target
        finally:
            self._lock.release()
        return self

    def clear(self) -> None:
        """Uninitialised again."""
        with self._lock:
            self._value = self._spare = None

    def _target(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """An array to write, lock held.

        If it is the value itself, that was taken out: `_value` is None until put back.
        """
        value = self._value
        if type(value) is np.ndarray and value.shape == shape and value.dtype == dtype:
            # From here no reader can take a lease; those that have one are in the count.
            self._value = None
            if sys.getrefcount(value) == _UNSHARED:
                value.flags.writeable = True
                return value
            self._value = value
        alike = type(value) is np.ndarray and value.shape == shape and value.dtype == dtype
        spare, self._spare = self._spare, value if alike else None
        del value
        if spare is not None and spare.shape == shape and spare.dtype == dtype and sys.getrefcount(spare) == _UNSHARED:
            spare.flags.writeable = True
            return spare
        return np.empty(shape, dtype)

    def _acquire(self) -> None:
        if not self._lock.acquire(False):
            if thread_state.may_not_wait:
                raise Busy
            self._lock.acquire()

    def _read_waiting(self) -> Any:
        self._acquire()
        try:
            if self._value is None:
                raise self._uninitialized()
            return self._value
        finally:
            self._lock.release()

    def _uninitialized(self) -> errors.OpError:
        text = f"Attempting to use uninitialized value {self.name}"
        # no locks are taken here: this cell's is held, and a guess may be wrong
        there = [cell.name for cell in self._others() if cell._value is not None]
        bare = _NUMBER.sub("", self.name)
        near = [name for name in there if _NUMBER.sub("", name) == bare]
        near = near or difflib.get_close_matches(self.name, there[:_COMPARED], _MOST_NAMED, 0.8)
        if near:
            text += f". Variables of similar names have one: {', '.join(sorted(near)[:_MOST_NAMED])}"
        return errors.FailedPreconditionError(None, None, text)

    def _mismatch(self, other: Any) -> errors.OpError:
        return errors.InvalidArgumentError(
            None,
            None,
            f"Variable '{self.name}' of shape {shape_text(self.shape or ())} cannot be updated with a value of shape "
            f"{shape_text(np.shape(other))}; the shapes must match. {_LEFT}",
        )


def shape_text(shape: tuple[int, ...]) -> str:
    """`[2,3]`, as TensorFlow prints shapes in messages."""
    return "[" + ",".join(map(str, shape)) + "]"


def _count_unshared() -> int:
    """What `_target` counts for an array that only its own local variable holds, on this interpreter."""
    cell = VariableCell.__new__(VariableCell)
    cell._value = np.empty(1)
    value = cell._value
    cell._value = None
    return sys.getrefcount(value)


_UNSHARED = _count_unshared()


def variable(
    resources: ResourceManager, container: str, name: str, node_name: str, dtype: DType, shape: TensorShape | None
) -> Callable[[], VariableCell]:
    """The kernel of a variable op: yields its cell, made if it is not there.

    Raises InternalError, with TF's text, if there is a variable of this name with another dtype. A cell that is there
    keeps its own shape.
    """
    dtype = dtype.base_dtype
    fixed: tuple[int, ...] | None = None
    if shape is not None and shape.is_fully_defined():
        fixed = tuple(size or 0 for size in shape.as_list())
    others = functools.partial(resources.all_of, container, "Variable")
    get = resources.getter(container, "Variable", name, lambda: VariableCell(node_name, dtype, fixed, others))

    def fetch() -> VariableCell:
        cell: VariableCell = get()
        if cell.dtype is not dtype:
            raise errors.InternalError(
                None,
                None,
                f"Output 0 of type {tf_name(cell.dtype)}_ref does not match declared output type "
                f"{tf_name(dtype)}_ref for node {{{{node {node_name}}}}}. {_LEFT}",
            )
        return cell

    return fetch


def tf_name(dtype: DType) -> str:
    """The name that TensorFlow's C++ messages use: `float` for float32, `double` for float64."""
    return {"float32": "float", "float64": "double", "float16": "half"}.get(dtype.name, dtype.name)
