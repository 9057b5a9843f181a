"""The functions of `tf.summary` that add operations, and those of TensorFlow before 1.0."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterable, Iterator
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import add_to_collection, get_collection, name_scope
from dtfzmq.ops.protos import block
from dtfzmq.ops.raw import raw

_log = logging.getLogger("dtfzmq")

_NOT_OF_TAGS = re.compile(r"[^-/\w.]")
_ALWAYS = (GraphKeys.SUMMARIES,)
_OF_TEXT = block(1, block(1, b"text"))  # the plugin of TensorBoard that shows it


def _clean(name: Any) -> Any:
    """A name without what may not stand in the name of an operation, if it is not None."""
    if name is None:
        return None
    clean = _NOT_OF_TAGS.sub("_", name).lstrip("/")
    if clean != name:
        _log.info("Summary name %s is illegal; using %s instead.", name, clean)
    return clean


@contextlib.contextmanager
def _scope(name: Any, family: Any, value: Any) -> Iterator[tuple[str, str]]:
    """(tag, name of the operation), with the scope of that name open. A family begins the tag, and its tab's name."""
    name, family = _clean(name), _clean(family)
    if name is None and family is None:
        raise ValueError("At least one of name (None) and default_name (None) must be provided.")
    with name_scope(name if family is None else f"{family}/{name}", values=[value]) as scope:
        tag = scope.rstrip("/")
        yield tag if family is None else f"{family}/{tag}", scope


def _collected(summary: Tensor, collections: Iterable[Any] | None, otherwise: Iterable[Any]) -> Tensor:
    for key in otherwise if collections is None else collections:
        add_to_collection(key, summary)
    return summary


def scalar(name: Any, tensor: Any, collections: Any = None, family: Any = None) -> Tensor:
    """The summary of a number, of any real type and written as float32.

    Its tag is its name with the scopes in force, behind `family` if given. It goes to `collections`,
    ``GraphKeys.SUMMARIES`` if None.
    """
    with _scope(name, family, tensor) as (tag, op_name):
        return _collected(raw.ScalarSummary(tag, tensor, name=op_name), collections, _ALWAYS)


def histogram(name: Any, values: Any, collections: Any = None, family: Any = None) -> Tensor:
    """The summary of how numbers are spread, in buckets each a tenth wider than the one nearer to zero.

    Fails at run time with InvalidArgumentError if one of them is not finite. For the rest see `scalar`.
    """
    with _scope(name, family, values) as (tag, op_name):
        return _collected(raw.HistogramSummary(tag, values, name=op_name), collections, _ALWAYS)


def image(name: Any, tensor: Any, max_outputs: int = 3, collections: Any = None, family: Any = None) -> Tensor:
    """The summary of up to `max_outputs` images of [batch, height, width, channels], as PNG; 1, 3 or 4 channels.

    Floats are stretched to what an image holds, each image for itself: the largest is the brightest, and 0 grey if any
    is negative. Tags end with "/image/0" and so on, or "/image" if `max_outputs` is 1. For the rest see `scalar`.
    """
    with _scope(name, family, tensor) as (tag, op_name):
        made = raw.ImageSummary(tag, tensor, max_images=max_outputs, name=op_name)
        return _collected(made, collections, _ALWAYS)


def audio(
    name: Any, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Any = None, family: Any = None
) -> Tensor:
    """The summary of up to `max_outputs` sounds of [batch, frames] or [batch, frames, channels], within -1 and 1.

    `sample_rate` is in hertz. Tags end as those of `image`, with "audio"; for the rest see `scalar`.
    """
    with _scope(name, family, tensor) as (tag, op_name):
        rate = convert_to_tensor(sample_rate, dtypes.float32, "sample_rate")
        made = raw.AudioSummaryV2(tag, tensor, rate, max_outputs=max_outputs, name=op_name)
        return _collected(made, collections, _ALWAYS)


def text(name: Any, tensor: Any, collections: Any = None) -> Tensor:
    """The summary of texts, a tensor of any shape. Raises ValueError for another type. For the rest see `scalar`."""
    if tensor.dtype.base_dtype is not dtypes.string:
        raise ValueError(f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype}")
    return _tensor(name, tensor, _OF_TEXT, collections, None)


def tensor_summary(
    name: Any, tensor: Any, summary_description: str | None = None, collections: Any = None,
    summary_metadata: Any = None, family: Any = None, display_name: str | None = None,
) -> Tensor:  # fmt: skip
    """The summary of any tensor, whole.

    `summary_metadata` (a tf.SummaryMetadata) says who is to show it, and takes the other two in: a text about it, and
    the name to show instead of its own. For the rest see `scalar`.
    """
    if summary_metadata is None:
        shown, told = (v if v is None else v.encode() for v in (display_name, summary_description))
        metadata = (block(2, shown) if shown else b"") + (block(3, told) if told else b"")
    else:
        if summary_description is not None:
            summary_metadata.summary_description = summary_description
        if display_name is not None:
            summary_metadata.display_name = display_name
        metadata = summary_metadata.SerializeToString()
    return _tensor(name, tensor, metadata, collections, family)


def _tensor(name: Any, tensor: Any, metadata: bytes, collections: Any, family: Any) -> Tensor:
    with _scope(name, family, tensor) as (tag, op_name):
        return _collected(raw.TensorSummaryV2(tag, tensor, metadata, name=op_name), collections, _ALWAYS)


def merge(inputs: Any, collections: Any = None, name: Any = None) -> Tensor:
    """One summary with the values of all. Fails at run time with InvalidArgumentError if two have one tag.

    It goes to `collections`, to none if None.
    """
    name, several = _clean(name), list(inputs)
    with name_scope(name, "Merge", several):
        return _collected(raw.MergeSummary(several, name=name), collections, ())


def merge_all(key: Any = GraphKeys.SUMMARIES, scope: str | None = None, name: Any = None) -> Tensor | None:
    """`merge` of all summaries of the default graph: those in the collection `key`. None if there are none.

    With `scope`, of those alone whose name it matches (``re.match``).
    """
    found = get_collection(key, scope)
    return merge(found, name=name) if found else None


# -- before 1.0: the tag is a tensor, and no name ----------------------------------------------------------------------


def scalar_summary(tags: Any, values: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """`scalar` before TensorFlow 1.0: a tag, or several, for as many numbers."""
    with name_scope(name, "ScalarSummary", [tags, values]) as scope:
        return _collected(raw.ScalarSummary(tags, values, name=scope), collections, _ALWAYS)


def histogram_summary(tag: Any, values: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """`histogram` before TensorFlow 1.0."""
    with name_scope(name, "HistogramSummary", [tag, values]) as scope:
        return _collected(raw.HistogramSummary(tag, values, name=scope), collections, _ALWAYS)


def image_summary(
    tag: Any, tensor: Any, max_images: int = 3, collections: Any = None, name: str | None = None
) -> Tensor:
    """`image` before TensorFlow 1.0."""
    with name_scope(name, "ImageSummary", [tag, tensor]) as scope:
        return _collected(raw.ImageSummary(tag, tensor, max_images=max_images, name=scope), collections, _ALWAYS)


def audio_summary(
    tag: Any, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Any = None, name: str | None = None
) -> Tensor:
    """`audio` before TensorFlow 1.0."""
    with name_scope(name, "AudioSummary", [tag, tensor]) as scope:
        rate = convert_to_tensor(sample_rate, dtypes.float32, "sample_rate")
        made = raw.AudioSummaryV2(tag, tensor, rate, max_outputs=max_outputs, name=scope)
        return _collected(made, collections, _ALWAYS)


def merge_summary(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """`merge` before TensorFlow 1.0."""
    several = list(inputs)
    with name_scope(name, "MergeSummary", several):
        return _collected(raw.MergeSummary(several, name=name), collections, ())


def merge_all_summaries(key: Any = GraphKeys.SUMMARIES) -> Tensor | None:
    """`merge_all` before TensorFlow 1.0."""
    found = get_collection(key)
    return merge_summary(found) if found else None
