"""The messages of event files (tensorflow/core/framework/summary.proto and its kin, core/util/event.proto)."""

from __future__ import annotations

from typing import ClassVar

from dtfzmq.summary.fields import Field, Repeated
from dtfzmq.summary.proto import Message


class TensorShapeProto(Message):
    """The shape of a TensorProto."""

    class Dim(Message):
        """One of its sizes."""

        size: int
        name: str
        FIELDS: ClassVar[dict[str, Field]] = {"size": Field(1, "int64"), "name": Field(2, "string")}

    dim: Repeated
    unknown_rank: bool
    FIELDS: ClassVar[dict[str, Field]] = {"dim": Field(2, Dim, True), "unknown_rank": Field(3, "bool")}


class TensorProto(Message):
    """A tensor."""

    dtype: int
    tensor_shape: TensorShapeProto
    version_number: int
    tensor_content: bytes
    float_val: Repeated
    double_val: Repeated
    int_val: Repeated
    string_val: Repeated
    int64_val: Repeated
    bool_val: Repeated
    FIELDS: ClassVar[dict[str, Field]] = {
        "dtype": Field(1, "enum"),
        "tensor_shape": Field(2, TensorShapeProto),
        "version_number": Field(3, "int32"),
        "tensor_content": Field(4, "bytes"),
        "float_val": Field(5, "float", True),
        "double_val": Field(6, "double", True),
        "int_val": Field(7, "int32", True),
        "string_val": Field(8, "bytes", True),
        "int64_val": Field(10, "int64", True),
        "bool_val": Field(11, "bool", True),
    }


class HistogramProto(Message):
    """How numbers are spread: how many (`bucket`) are below each limit and not below the one before it."""

    min: float
    max: float
    num: float
    sum: float
    sum_squares: float
    bucket_limit: Repeated
    bucket: Repeated
    FIELDS: ClassVar[dict[str, Field]] = {
        "min": Field(1, "double"),
        "max": Field(2, "double"),
        "num": Field(3, "double"),
        "sum": Field(4, "double"),
        "sum_squares": Field(5, "double"),
        "bucket_limit": Field(6, "double", True),
        "bucket": Field(7, "double", True),
    }


class SummaryMetadata(Message):
    """What is said of a tag once: who shows it, and how."""

    class PluginData(Message):
        """The plugin of TensorBoard that shows it, and what is only for that."""

        plugin_name: str
        content: bytes
        FIELDS: ClassVar[dict[str, Field]] = {"plugin_name": Field(1, "string"), "content": Field(2, "bytes")}

    plugin_data: PluginData
    display_name: str
    summary_description: str
    data_class: int
    FIELDS: ClassVar[dict[str, Field]] = {
        "plugin_data": Field(1, PluginData),
        "display_name": Field(2, "string"),
        "summary_description": Field(3, "string"),
        "data_class": Field(4, "enum"),
    }


class SummaryDescription(Message):
    """What kind of summary an operation makes."""

    type_hint: str
    FIELDS: ClassVar[dict[str, Field]] = {"type_hint": Field(1, "string")}


class Summary(Message):
    """Values with tags: what summary operations give, and what programs fill themselves."""

    class Image(Message):
        """A picture in a file's format; `colorspace` is the number of channels."""

        height: int
        width: int
        colorspace: int
        encoded_image_string: bytes
        FIELDS: ClassVar[dict[str, Field]] = {
            "height": Field(1, "int32"),
            "width": Field(2, "int32"),
            "colorspace": Field(3, "int32"),
            "encoded_image_string": Field(4, "bytes"),
        }

    class Audio(Message):
        """A sound in a file's format."""

        sample_rate: float
        num_channels: int
        length_frames: int
        encoded_audio_string: bytes
        content_type: str
        FIELDS: ClassVar[dict[str, Field]] = {
            "sample_rate": Field(1, "float"),
            "num_channels": Field(2, "int64"),
            "length_frames": Field(3, "int64"),
            "encoded_audio_string": Field(4, "bytes"),
            "content_type": Field(5, "string"),
        }

    class Value(Message):
        """One value: a tag, and one of `simple_value`, `histo`, `image`, `audio`, `tensor`."""

        node_name: str
        tag: str
        metadata: SummaryMetadata
        simple_value: float
        obsolete_old_style_histogram: bytes
        image: Summary.Image
        histo: HistogramProto
        audio: Summary.Audio
        tensor: TensorProto

    value: Repeated


Summary.Value.declare({
    "node_name": Field(7, "string"),
    "tag": Field(1, "string"),
    "metadata": Field(9, SummaryMetadata),
    "simple_value": Field(2, "float", oneof="value"),
    "obsolete_old_style_histogram": Field(3, "bytes", oneof="value"),
    "image": Field(4, Summary.Image, oneof="value"),
    "histo": Field(5, HistogramProto, oneof="value"),
    "audio": Field(6, Summary.Audio, oneof="value"),
    "tensor": Field(8, TensorProto, oneof="value"),
})  # fmt: skip
Summary.declare({"value": Field(1, Summary.Value, True)})


class LogMessage(Message):
    """A line of a log."""

    UNKNOWN, DEBUGGING, INFO, WARN, ERROR, FATAL = 0, 10, 20, 30, 40, 50
    level: int
    message: str
    FIELDS: ClassVar[dict[str, Field]] = {"level": Field(1, "enum"), "message": Field(2, "string")}


class SessionLog(Message):
    """That a session began, ended, or wrote a checkpoint."""

    STATUS_UNSPECIFIED, START, STOP, CHECKPOINT = range(4)
    status: int
    checkpoint_path: str
    msg: str
    FIELDS: ClassVar[dict[str, Field]] = {
        "status": Field(1, "enum"),
        "checkpoint_path": Field(2, "string"),
        "msg": Field(3, "string"),
    }


class TaggedRunMetadata(Message):
    """A run's metadata, as bytes, and its name."""

    tag: str
    run_metadata: bytes
    FIELDS: ClassVar[dict[str, Field]] = {"tag": Field(1, "string"), "run_metadata": Field(2, "bytes")}


class Event(Message):
    """One record of an event file: when, at which step, and one of the rest."""

    wall_time: float
    step: int
    file_version: str
    graph_def: bytes
    summary: Summary
    log_message: LogMessage
    session_log: SessionLog
    tagged_run_metadata: TaggedRunMetadata
    meta_graph_def: bytes
    FIELDS: ClassVar[dict[str, Field]] = {
        "wall_time": Field(1, "double"),
        "step": Field(2, "int64"),
        "file_version": Field(3, "string", oneof="what"),
        "graph_def": Field(4, "bytes", oneof="what"),
        "summary": Field(5, Summary, oneof="what"),
        "log_message": Field(6, LogMessage, oneof="what"),
        "session_log": Field(7, SessionLog, oneof="what"),
        "tagged_run_metadata": Field(8, TaggedRunMetadata, oneof="what"),
        "meta_graph_def": Field(9, "bytes", oneof="what"),
    }
