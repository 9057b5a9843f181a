"""Floor 4, and the module `tf.summary`: summaries and events as messages, and the files that they go to.

Imports go down: base, graph, ops. The operations are floor 2, `ops/summarize.py`.
"""

from typing import TYPE_CHECKING

from dtfzmq.base import absent
from dtfzmq.ops.summarize import audio, histogram, image, merge, merge_all, scalar, tensor_summary, text
from dtfzmq.summary.files import summary_iterator
from dtfzmq.summary.messages import Event, SessionLog, Summary, SummaryDescription, TaggedRunMetadata
from dtfzmq.summary.writer import FileWriter, FileWriterCache

__all__ = [
    "Event",
    "FileWriter",
    "FileWriterCache",
    "SessionLog",
    "Summary",
    "SummaryDescription",
    "TaggedRunMetadata",
    "audio",
    "histogram",
    "image",
    "merge",
    "merge_all",
    "scalar",
    "summary_iterator",
    "tensor_summary",
    "text",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> None:
        raise absent.lacking("summary", name)
