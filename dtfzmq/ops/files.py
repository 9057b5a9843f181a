"""Files read and written by operations, on the task where they stand; and the time there."""

from __future__ import annotations

import glob
import os
from typing import Any

import numpy as np

from dtfzmq.base import clock, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import none, scalar

_NONE = NO_GRAD("no numbers")


def _text(value: Any, what: str) -> str:
    item = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if not isinstance(item, (bytes, str)):
        shape = list(np.shape(value))
        raise errors.InvalidArgumentError(None, None, f"{what} must be a scalar, but has shape {shape}.")
    return os.fsdecode(item)


def _failed(path: str, error: OSError) -> errors.OpError:
    kinds: tuple[tuple[type[OSError], type[errors.OpError]], ...] = (
        (FileNotFoundError, errors.NotFoundError),
        (PermissionError, errors.PermissionDeniedError),
        (IsADirectoryError, errors.FailedPreconditionError),
    )
    kind = next((ours for theirs, ours in kinds if isinstance(error, theirs)), errors.UnknownError)
    return kind(None, None, f"{path}; {error.strerror}")


def _read(filename: Any) -> Any:
    path = _text(filename, "filename")
    try:
        with open(path, "rb") as file:
            return np.array(file.read(), object)
    except OSError as error:
        raise _failed(path, error) from None


def _write(filename: Any, contents: Any) -> None:
    path = _text(filename, "filename")
    data = contents.item() if isinstance(contents, np.ndarray) else contents
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise _failed(path, error) from None


def _matching(pattern: Any) -> Any:
    patterns = np.asarray(pattern, object).reshape(-1).tolist()
    found = sorted({name for p in patterns for name in glob.glob(os.fsdecode(p))})
    out = np.empty(len(found), object)
    out[:] = [os.fsencode(name) for name in found]
    return out


read_file = op(
    "ReadFile", "filename: string -> contents: string", shape=scalar, kernel=_read, grad=_NONE, stateful=True,
    holds=True, samples=[Sample(b"/no/such/file", fails=errors.NotFoundError)],
)  # fmt: skip
write_file = op(
    "WriteFile", "filename: string, contents: string ->", shape=none, kernel=_write, grad=_NONE, stateful=True,
    holds=True, samples=[Sample(os.devnull.encode(), b"contents")],
)  # fmt: skip
matching_files = op(
    "MatchingFiles", "pattern: string -> filenames: string", shape=lambda n: [TensorShape([None])], kernel=_matching,
    grad=_NONE, stateful=True, holds=True, samples=[Sample(b"/no/such/*")],
)  # fmt: skip
timestamp = op(
    "Timestamp", "-> ts: float64", shape=scalar, kernel=lambda: np.float64(clock.wall()), grad=NO_GRAD("has no input"),
    stateful=True, samples=[Sample(values=False)],
)  # fmt: skip

__all__ = ["matching_files", "read_file", "timestamp", "write_file"]
