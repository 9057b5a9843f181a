"""The file `checkpoint` of a folder: which checkpoints it has, and which is the latest."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import logging
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from dtfzmq.base import clock
from dtfzmq.train.checkpoints.bundle import data_files

_log = logging.getLogger("dtfzmq")

_LINE = re.compile(r"""\s*(\w+)\s*:\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([-+.\w]+))\s*(?:#.*)?""")
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_PLAIN = {"n": b"\n", "r": b"\r", "t": b"\t"}


@dataclasses.dataclass
class CheckpointState:
    """What TensorFlow's protocol buffer of that name holds."""

    model_checkpoint_path: str = ""
    all_model_checkpoint_paths: list[str] = dataclasses.field(default_factory=list)
    all_model_checkpoint_timestamps: list[float] = dataclasses.field(default_factory=list)
    last_preserved_timestamp: float = 0.0

    def to_text(self) -> str:
        """As the file has it."""
        lines = [f"model_checkpoint_path: {_quoted(self.model_checkpoint_path)}"]
        lines += [f"all_model_checkpoint_paths: {_quoted(path)}" for path in self.all_model_checkpoint_paths]
        lines += [f"all_model_checkpoint_timestamps: {when!r}" for when in self.all_model_checkpoint_timestamps]
        if self.last_preserved_timestamp:
            lines.append(f"last_preserved_timestamp: {self.last_preserved_timestamp!r}")
        return "\n".join(lines) + "\n"

    @classmethod
    def from_text(cls, text: str) -> CheckpointState:
        """ValueError for what is no such file."""
        state = cls()
        for line in text.splitlines():
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            match = _LINE.fullmatch(line)
            if match is None:
                raise ValueError(f"the line {line!r:.80} is none of such a file")
            name, double, single, number = match.groups()
            quoted = single if double is None else double
            if name == "model_checkpoint_path" and quoted is not None:
                state.model_checkpoint_path = _unquoted(quoted)
            elif name == "all_model_checkpoint_paths" and quoted is not None:
                state.all_model_checkpoint_paths.append(_unquoted(quoted))
            elif name == "all_model_checkpoint_timestamps" and number is not None:
                state.all_model_checkpoint_timestamps.append(float(number))
            elif name == "last_preserved_timestamp" and number is not None:
                state.last_preserved_timestamp = float(number)
            else:
                raise ValueError(f"the line {line!r:.80} is none of such a file")
        return state


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _unquoted(text: str) -> str:
    def one(match: re.Match[bytes]) -> bytes:
        what = match[1].decode("latin-1")
        return bytes([int(what, 8) & 255]) if what.isdigit() else _PLAIN.get(what, match[1])

    return os.fsdecode(_ESCAPE.sub(one, os.fsencode(text)))


def _file(folder: str, latest_filename: str | None) -> str:
    return os.path.join(folder, latest_filename or "checkpoint")


def get_checkpoint_state(checkpoint_dir: Any, latest_filename: str | None = None) -> CheckpointState | None:
    """What the file `checkpoint` of a folder says; None if there is none, or none that can be read.

    Relative paths in it are made relative to the working folder. ValueError if it names no checkpoint.
    """
    folder = os.fspath(checkpoint_dir)
    path = _file(folder, latest_filename)
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            state = CheckpointState.from_text(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("%s: checkpoint ignored, since it cannot be read: %s", path, error)
        return None
    if not state.model_checkpoint_path:
        raise ValueError(f"Invalid checkpoint state loaded from {folder}: {path} names no checkpoint.")
    state.model_checkpoint_path = os.path.join(folder, state.model_checkpoint_path)
    state.all_model_checkpoint_paths = [os.path.join(folder, each) for each in state.all_model_checkpoint_paths]
    return state


def generate_checkpoint_state_proto(
    save_dir: Any,
    model_checkpoint_path: Any,
    all_model_checkpoint_paths: Iterable[Any] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> CheckpointState:
    """A CheckpointState with the latest checkpoint last. Paths under a relative `save_dir` are made relative to it."""
    folder, latest = os.fspath(save_dir), os.fspath(model_checkpoint_path)
    paths = [os.fspath(path) for path in all_model_checkpoint_paths or ()]
    times = list(all_model_checkpoint_timestamps or ())
    if times and len(times) != len(paths):
        raise ValueError(f"There are {len(paths)} checkpoint paths and {len(times)} times of checkpoints.")
    if not paths or paths[-1] != latest:
        paths.append(latest)
        if times:
            times.append(clock.wall())
    if not os.path.isabs(folder):
        latest, *paths = [path if os.path.isabs(path) else os.path.relpath(path, folder) for path in (latest, *paths)]
    return CheckpointState(latest, paths, times, last_preserved_timestamp or 0.0)


def update_checkpoint_state(
    save_dir: Any,
    model_checkpoint_path: Any,
    all_model_checkpoint_paths: Iterable[Any] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Write the file `checkpoint` of a folder: all of it, or, if this process is killed, nothing."""
    write_state(
        save_dir,
        generate_checkpoint_state_proto(
            save_dir,
            model_checkpoint_path,
            all_model_checkpoint_paths,
            all_model_checkpoint_timestamps,
            last_preserved_timestamp,
        ),
        latest_filename,
    )


def write_state(save_dir: Any, state: CheckpointState, latest_filename: str | None = None) -> None:
    """Put a state in its place. RuntimeError if it would take that of a checkpoint of the same name."""
    path = _file(os.fspath(save_dir), latest_filename)
    if path == state.model_checkpoint_path:
        raise RuntimeError(f"Save path '{path}' conflicts with path used for checkpoint state. Please use another.")
    temporary = f"{path}.tmp{secrets.token_hex(8)}"
    try:
        with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(state.to_text())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def checkpoint_exists(checkpoint_prefix: Any) -> bool:
    """Whether there is a checkpoint of this name: `prefix.index`, also with wild cards."""
    path = os.fspath(checkpoint_prefix) + ".index"
    return os.path.exists(path) or bool(glob.glob(path))


def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """The latest checkpoint that the file `checkpoint` of a folder names, if its files are there; else None."""
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    if not os.path.exists(state.model_checkpoint_path + ".index"):
        _log.error("Couldn't match files for checkpoint %s", state.model_checkpoint_path)
        return None
    return state.model_checkpoint_path


def get_checkpoint_mtimes(checkpoint_prefixes: Iterable[Any]) -> list[float]:
    """When each checkpoint that is there was written, in seconds since 1970."""
    found = []
    for prefix in checkpoint_prefixes:
        with contextlib.suppress(FileNotFoundError):
            found.append(os.path.getmtime(os.fspath(prefix) + ".index"))
    return found


def remove_checkpoint(
    checkpoint_prefix: Any, checkpoint_format_version: Any = 2, meta_graph_suffix: str = "meta"
) -> None:
    """Delete the files of a checkpoint: the index first, so that no half of one is taken for whole."""
    prefix = os.fspath(checkpoint_prefix)
    for path in (f"{prefix}.index", *data_files(prefix), f"{prefix}.{meta_graph_suffix}"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
