"""A checkpoint without a graph: what it holds, and any tensor of it."""

from __future__ import annotations

import os
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.train.checkpoints import state
from dtfzmq.train.checkpoints.bundle import Reader

Array = Any


class CheckpointReader:
    """Made by `NewCheckpointReader`. NotFoundError for tensors that are not there, DataLossError for damaged ones."""

    def __init__(self, prefix: str) -> None:
        self._reader = Reader(prefix)

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Name of each tensor -> its shape."""
        return {name: list(self._reader.entry(name).shape) for name in self._reader.names()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """Name of each tensor -> its type."""
        return {name: dtypes.as_dtype(self._reader.entry(name).dtype) for name in self._reader.names()}

    def has_tensor(self, tensor_str: str) -> bool:
        """Whether there is a tensor of this name."""
        return tensor_str in self._reader

    def get_tensor(self, tensor_str: str) -> Array:
        """A tensor as an array of numpy; texts as an array of bytes, or bytes if it is one."""
        value = self._reader.read(tensor_str)
        return value[()] if value.dtype == object and value.ndim == 0 else value

    def debug_string(self) -> bytes:
        """A line for each tensor: name, type, shape."""
        entries = [(name, self._reader.entry(name)) for name in self._reader.names()]
        return "".join(f"{name} ({e.dtype}) [{','.join(map(str, e.shape))}]\n" for name, e in entries).encode()


def NewCheckpointReader(filepattern: Any) -> CheckpointReader:
    """The checkpoint of this path. NotFoundError if there is none, DataLossError if it is damaged."""
    return CheckpointReader(os.fspath(filepattern))


def load_checkpoint(ckpt_dir_or_file: Any) -> CheckpointReader:
    """The checkpoint of this path, or the latest of this folder. ValueError if it has none."""
    path = os.fspath(ckpt_dir_or_file)
    if os.path.isdir(path):
        latest = state.latest_checkpoint(path)
        if latest is None:
            raise ValueError(f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}")
        path = latest
    return NewCheckpointReader(path)


def load_variable(ckpt_dir_or_file: Any, name: str) -> Array:
    """One tensor of a checkpoint, or of the latest of a folder."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """(name, shape) of each tensor of a checkpoint, or of the latest of a folder, by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())
