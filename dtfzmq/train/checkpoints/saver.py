"""`Saver`: writes variables to checkpoints and brings them back, through a session.

The values come to the program over the session and go into files of its machine: tasks need no file system that they
share, and their number may change from one run to the next. TensorFlow has each task write its own share instead.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtfzmq.base import absent, clock, errors
from dtfzmq.client.base_session import BaseSession
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import (
    colocate_with,
    control_dependencies,
    device,
    get_collection,
    init_scope,
    name_scope,
)
from dtfzmq.ops.constants import placeholder
from dtfzmq.ops.state import assign
from dtfzmq.train.checkpoints import state
from dtfzmq.train.checkpoints.bundle import Reader, Writer
from dtfzmq.train.checkpoints.slices import Part
from dtfzmq.train.step import global_step as current_step
from dtfzmq.variables.partitions import PartitionedVariable
from dtfzmq.variables.variable import Variable

_log = logging.getLogger("dtfzmq")

# So many bytes of variables are on their way at once.
_AT_ONCE = 1 << 30


class _Saved(NamedTuple):
    """A variable, by the name it has in checkpoints; with `part` it is that part of a tensor of the shape `whole`."""

    name: str
    variable: Variable
    whole: tuple[int, ...] = ()
    part: Part | None = None


class _Restored(NamedTuple):
    """The ops that give a variable a value from outside."""

    value: Tensor
    assign: Operation


class Saver:
    """Writes and reads checkpoints of `var_list`: a list of variables, or a map of names in checkpoints to variables.

    None: all global variables of the default graph. The last `max_to_keep` checkpoints are kept (None or 0: all), and
    of the others one each `keep_checkpoint_every_n_hours`. `reshape` lets a variable take a value of another shape and
    as many elements. Parts of a partitioned variable are saved as parts of one tensor, and may be restored in others.
    Not for use by several threads at once. `sharded`, `restore_sequentially` and `filename` make no difference.

    ValueError for no variables, or two of a name; TypeError for what is none.
    """

    export_meta_graph = absent.Lacking("train.Saver", "export_meta_graph")
    as_saver_def = absent.Lacking("train.Saver", "as_saver_def")

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: Any = 2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        if saver_def is not None or builder is not None:
            raise ValueError("saver_def and builder are not supported: make the Saver from its variables.")
        if defer_build and var_list is not None:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. Either set defer_build=False or "
                "var_list=None."
            )
        if write_version in (1, "1"):
            raise ValueError("Checkpoints of version 1 are not written; leave write_version out.")
        self._var_list = var_list
        self._reshape = reshape
        self._max_to_keep = max_to_keep or 0
        self._keep_hours = keep_checkpoint_every_n_hours
        self._allow_empty = allow_empty
        self._pad_step_number = pad_step_number
        self._relative = save_relative_paths
        self._name = name
        self._saved: dict[_Saved, _Restored] | None = None
        #: (path, when it was written) of those that are kept for now, the oldest first.
        self._last: list[tuple[str, float]] = []
        self._next_kept = clock.wall() + keep_checkpoint_every_n_hours * 3600
        if not defer_build:
            self.build()

    def build(self) -> None:
        """Take in the variables and add the ops that restore them, if `defer_build` was set."""
        if self._saved is not None:
            return
        var_list = self._var_list
        if var_list is None:
            var_list = get_collection(GraphKeys.GLOBAL_VARIABLES) + get_collection(GraphKeys.SAVEABLE_OBJECTS)
        saved = list(saved_as(var_list))
        if not saved and not self._allow_empty:
            raise ValueError("No variables to save")
        found = {}
        if saved:
            with saved[0].variable.graph.as_default(), init_scope(), control_dependencies(None), device(None):
                with name_scope(self._name, "save"):
                    found = {each: _restoring(each.variable) for each in saved}
        self._saved = found

    # -- saving --------------------------------------------------------------------------------------------------------

    def save(
        self,
        sess: BaseSession,
        save_path: Any,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str:
        """Write a checkpoint; its path is `save_path`, and "-" and `global_step` (an int, or a variable) if given.

        Nothing stands there before all of it does, and one that it takes the place of is whole until then. The file
        `checkpoint` beside it names it and those that are kept. No graph is written, whatever `write_meta_graph` says.
        Raises what session.run raises, FailedPreconditionError for variables without a value; ValueError for a folder
        that cannot be; the system's OSError for one that is full.
        """
        saved, prefix = self._ready(sess), os.fspath(save_path)
        if os.path.split(latest_filename or "")[0]:
            raise ValueError("'latest_filename' must not contain path components")
        if os.path.basename(prefix) == (latest_filename or "checkpoint"):
            raise ValueError(f"'latest_filename' collides with 'save_path': '{latest_filename or 'checkpoint'}'")
        if global_step is not None:
            if not isinstance(global_step, (int, np.integer)):
                global_step = current_step(sess, global_step)
            prefix += f"-{int(global_step):0{8 if self._pad_step_number else 1}d}"
        folder = os.path.dirname(prefix)
        if not os.path.basename(prefix):
            raise ValueError(f"{prefix} is a folder: give the name of a checkpoint in it, as {prefix}model.")
        try:
            writer = Writer(prefix)
        except (FileExistsError, FileNotFoundError, NotADirectoryError, PermissionError) as error:
            raise ValueError(f"Parent directory of {prefix} doesn't exist, can't save: {error}.") from None
        try:
            for several in _batches(saved):
                values = sess.run([each.variable for each in several])
                for each, value in zip(several, values):
                    writer.add(each.name, np.asarray(value, None if _numeric(value) else object), each.whole, each.part)
            writer.finish()
        finally:
            writer.abandon()
        if write_state:
            self._remember(prefix, folder, latest_filename, meta_graph_suffix)
        return prefix

    def _remember(self, prefix: str, folder: str, latest_filename: str | None, meta_graph_suffix: str) -> None:
        if self._max_to_keep:
            self._last = [each for each in self._last if each[0] != prefix]
            self._last.append((prefix, clock.wall()))
        old = []
        while len(self._last) > self._max_to_keep:
            path, when = self._last.pop(0)
            if when > self._next_kept:
                self._next_kept += self._keep_hours * 3600
            else:
                old.append(path)
        paths, latest = [path for path, _ in self._last], prefix
        if self._relative:
            folder = os.path.abspath(folder)
            latest, *paths = [os.path.relpath(path, folder) for path in (latest, *paths)]
        state.update_checkpoint_state(
            folder, latest, paths, latest_filename, [when for _, when in self._last], self._next_kept
        )
        for path in old:
            try:
                state.remove_checkpoint(path, meta_graph_suffix=meta_graph_suffix)
            except OSError as error:
                _log.warning("Ignoring: %s", error)  # the one that was written is whole

    # -- restoring -----------------------------------------------------------------------------------------------------

    def restore(self, sess: BaseSession, save_path: Any) -> None:
        """Give the variables the values of a checkpoint; they need no other first. Adds nothing to the graph.

        ValueError if there is no checkpoint; NotFoundError for a variable that it has not, and InvalidArgumentError for
        one of another shape or type, both before any variable is changed; DataLossError for damaged files.
        """
        saved = self._ready(sess)
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        prefix = os.fspath(save_path)
        if not state.checkpoint_exists(prefix):
            raise ValueError(
                f"The passed save_path is not a valid checkpoint: {prefix}. There is no file "
                f"{os.path.abspath(prefix)}.index on this machine."
            )
        _log.info("Restoring parameters from %s", prefix)
        reader = Reader(prefix)
        for each in saved:
            self._check(each, reader)
        for several in _batches(saved):
            feeds = {}
            for each in several:
                value = reader.read(each.name, each.part)
                if self._reshape:
                    value = value.reshape(each.variable.get_shape().as_list())
                feeds[saved[each].value] = value
            sess.run([saved[each].assign for each in several], feeds)

    def _check(self, each: _Saved, reader: Reader) -> None:
        entry, variable = reader.entry(each.name), each.variable
        shape, dtype = variable.get_shape(), variable.dtype.base_dtype
        found = each.part.size if each.part is not None and entry.shape == each.whole else entry.shape
        if entry.dtype != dtype.name:
            trouble = f"{dtype.name} here, and {entry.dtype} in the checkpoint"
        elif not shape.is_compatible_with(found) and not (self._reshape and shape.num_elements() == np.prod(found)):
            trouble = f"of shape {list(each.whole) if each.part else shape} here, and {list(found)} in the checkpoint"
        else:
            return
        raise errors.InvalidArgumentError(
            None,
            variable.op,
            "Restoring from checkpoint failed. This is most likely due to a mismatch between the current graph and the "
            f"graph from the checkpoint: {each.name} is {trouble}.",
        )

    def _ready(self, sess: Any) -> dict[_Saved, _Restored]:
        if not isinstance(sess, BaseSession):
            raise TypeError(f"'sess' must be a Session; {sess}")
        if self._saved is None:
            raise RuntimeError("`build()` should be called before save if defer_build==True")
        return self._saved

    # -- which are kept ------------------------------------------------------------------------------------------------

    @property
    def last_checkpoints(self) -> list[str]:
        """The paths of the checkpoints that are kept for now, the oldest first."""
        return [path for path, _ in self._last]

    def set_last_checkpoints(self, last_checkpoints: Sequence[str]) -> None:
        """Take these for the ones that were written last, the oldest first."""
        self._last = [(path, float("inf")) for path in last_checkpoints]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: Iterable[tuple[str, float]]) -> None:
        """As `set_last_checkpoints`, with when each was written, in seconds since 1970."""
        self._last = list(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths: Iterable[str]) -> None:
        """As `set_last_checkpoints`, for those that are there: a program that starts again deletes the old ones."""
        found = []
        for path in checkpoint_paths:
            with contextlib.suppress(FileNotFoundError):
                found.append((path, os.path.getmtime(path + ".index")))
        self._last = found


def _numeric(value: Any) -> bool:
    return not isinstance(value, bytes)


def _restoring(variable: Variable) -> _Restored:
    # Not the variable's own initializer: the tensor that it assigns may be that of other variables too.
    shape = variable.get_shape()
    with colocate_with(variable.op):
        value = placeholder(variable.dtype.base_dtype, shape, name="value")
        known = shape.is_fully_defined()
        return _Restored(value, assign(variable._ref(), value, validate_shape=known, name="Assign").op)


def saved_as(var_list: Any) -> Iterator[_Saved]:
    """What is saved of what a program gave, by name."""
    if isinstance(var_list, Mapping):
        pairs = [(name, each) for name, each in sorted(var_list.items())]
    elif isinstance(var_list, Iterable):
        pairs = [(None, each) for each in var_list]
    else:
        raise TypeError(f"Variables to save should be passed in a dict or a list: {var_list}")
    whole: set[str] = set()
    partly: set[str] = set()
    seen: set[Variable] = set()
    for name, each in pairs:
        several = list(each) if isinstance(each, (PartitionedVariable, list, tuple)) else [each]
        for variable in several:
            if not isinstance(variable, Variable):
                raise TypeError(f"Variable to save is not a Variable: {variable}")
            info = variable._get_save_slice_info()
            if info is None:
                one = _Saved(name or variable.op.name, variable)
            else:
                part = Part(tuple(info.var_offset or ()), tuple(info.var_shape or ()))
                one = _Saved(name or info.full_name or "", variable, tuple(info.full_shape or ()), part)
            taken = one.name in whole or info is None and one.name in partly
            if taken:
                raise ValueError(f"At least two variables have the same name: {one.name}")
            if variable in seen:
                raise ValueError(f"The same saveable will be restored with two names: {one.name}")
            seen.add(variable)
            (whole if info is None else partly).add(one.name)
            yield one


def _batches(saved: Iterable[_Saved]) -> Iterator[list[_Saved]]:
    """`saved`, in order, so many at once as have no more bytes than are to be on their way; one at least."""
    batch: list[_Saved] = []
    size = 0
    for each in sorted(saved, key=lambda one: (one.name, one.part or ((), ()))):
        nbytes = (each.variable.get_shape().num_elements() or 1) * each.variable.dtype.size
        if batch and size + nbytes > _AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += nbytes
    if batch:
        yield batch
