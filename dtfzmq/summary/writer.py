"""Writers of summaries: the events of a program in a file that TensorBoard reads."""

from __future__ import annotations

import logging
import os
import threading
import warnings
import weakref
from typing import Any, ClassVar

from dtfzmq.base import clock
from dtfzmq.graph.graph import Graph
from dtfzmq.summary.files import EventFile
from dtfzmq.summary.messages import Event, SessionLog, Summary

_log = logging.getLogger("dtfzmq")

_told: set[str] = set()


def _tell_once(what: str) -> None:
    """Say in the log, once in a process, that something is not written."""
    if what not in _told:
        _told.add(what)
        _log.warning("Event files get no %s: TensorBoard shows what summaries say, and not that.", what)


class FileWriter:
    """Writes events to a file of its own in `logdir`, which is made if it is not there.

    The file is ``events.out.tfevents.SECONDS.HOST`` and `filename_suffix`. Events may wait in memory for `flush_secs`;
    they are in the file after `flush` and `close`, when the writer is no longer used, and when the process ends. Each
    thread may use it. What the system says, as of a full disk, is raised as OSError by the call that finds it, and the
    next one tries again. In a process that was forked the writer begins a file of its own.

    There is no graph in the file: the log says so once if `graph` is given. `max_queue` and `session` make no
    difference: there is no queue, and no writer in a session.
    """

    def __init__(
        self, logdir: Any, graph: Any = None, max_queue: int = 10, flush_secs: float = 120, graph_def: Any = None,
        filename_suffix: str | None = None, session: Any = None,
    ) -> None:  # fmt: skip
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)
        self._logdir = os.fsdecode(logdir)
        self._suffix, self._flush_secs = filename_suffix or "", flush_secs
        self._seen: set[str] = set()  # tags
        self._tagged: set[str] = set()  # runs
        self._closed = False
        self._open()

    def _open(self) -> None:
        self._file = EventFile(self._logdir, self._suffix, self._flush_secs)
        self._end = weakref.finalize(self, self._file.close)

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    def get_logdir(self) -> str:
        """The folder."""
        return self._logdir

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Add a summary, as a step gave it or as a `tf.Summary`, with the step's number.

        What is said of a tag (`metadata`) is written the first time that the tag comes.
        """
        if not self._usable():
            return
        if isinstance(summary, (bytes, bytearray)):
            found = Summary.FromString(bytes(summary))
        elif hasattr(summary, "SerializeToString"):
            found = Summary.FromString(summary.SerializeToString())
        else:
            raise TypeError(f"add_summary takes a tf.Summary, or its bytes, not {summary!r:.80}.")
        for value in found.value:
            if value.tag in self._seen:
                value.ClearField("metadata")
            self._seen.add(value.tag)
        self._put(Event(summary=found), global_step)

    def add_session_log(self, session_log: SessionLog, global_step: Any = None) -> None:
        """Add that a session began or ended, or wrote a checkpoint."""
        if self._usable():
            self._put(Event(session_log=session_log), global_step)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Says once in the log that no graph is written. TypeError for what is no Graph."""
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        if not isinstance(graph_def if graph is None else graph, Graph):
            raise TypeError("The passed graph must be an instance of `Graph` or the deprecated `GraphDef`")
        _tell_once("graphs")

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Says once in the log that no metadata of runs are written. ValueError for a tag that was used."""
        if tag in self._tagged:
            raise ValueError("The provided tag was already used for this event type")
        self._tagged.add(tag)
        _tell_once("metadata of runs")

    def add_event(self, event: Any) -> None:
        """Add a `tf.Event` as it is."""
        if not hasattr(event, "SerializeToString"):
            raise TypeError(f"add_event takes a tf.Event, not {event!r:.80}.")
        if self._usable():
            self._file.add(event)

    def _put(self, event: Event, step: Any) -> None:
        event.wall_time = clock.wall()
        if step is not None:
            event.step = int(step)
        self._file.add(event)

    def _usable(self) -> bool:
        """Whether there is a file to write to; a warning if it was closed."""
        if self._closed:
            text = (
                "Attempting to use a closed FileWriter. The operation will be a noop unless the FileWriter is "
                "explicitly reopened."
            )
            warnings.warn(text, stacklevel=3)  # where the program calls
            return False
        if not self._file.ours:
            self._open()  # the process was forked
        return True

    def flush(self) -> None:
        """Everything that was added is in the file."""
        if self._usable():
            self._file.flush()

    def close(self) -> None:
        """Everything that was added is in the file, and nothing is added any more."""
        self._closed = True
        self._end()

    def reopen(self) -> None:
        """After `close`: go on in a file of another name."""
        if self._closed:
            self._open()
            self._closed = False


class FileWriterCache:
    """One FileWriter for each folder."""

    _cache: ClassVar[dict[Any, FileWriter]] = {}
    _lock = threading.RLock()

    @staticmethod
    def clear() -> None:
        """Close all and forget them. What one raises comes when all are closed."""
        with FileWriterCache._lock:
            failed = None
            while FileWriterCache._cache:
                _, writer = FileWriterCache._cache.popitem()
                try:
                    writer.close()
                except OSError as error:
                    failed = error
            if failed is not None:
                raise failed

    @staticmethod
    def get(logdir: Any) -> FileWriter:
        """The writer of this folder, made if there is none yet."""
        with FileWriterCache._lock:
            if logdir not in FileWriterCache._cache:
                FileWriterCache._cache[logdir] = FileWriter(logdir)
            return FileWriterCache._cache[logdir]
