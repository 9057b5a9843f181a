"""Examples as messages (tensorflow/core/example/example.proto and feature.proto)."""

from __future__ import annotations

from typing import ClassVar

from dtfzmq.summary.fields import Field, Map, Repeated
from dtfzmq.summary.proto import Message


class BytesList(Message):
    """Texts."""

    value: Repeated
    FIELDS: ClassVar[dict[str, Field]] = {"value": Field(1, "bytes", True)}


class FloatList(Message):
    """Numbers, as float32."""

    value: Repeated
    FIELDS: ClassVar[dict[str, Field]] = {"value": Field(1, "float", True)}


class Int64List(Message):
    """Whole numbers."""

    value: Repeated
    FIELDS: ClassVar[dict[str, Field]] = {"value": Field(1, "int64", True)}


class Feature(Message):
    """One of the three lists, or nothing."""

    bytes_list: BytesList
    float_list: FloatList
    int64_list: Int64List
    FIELDS: ClassVar[dict[str, Field]] = {
        "bytes_list": Field(1, BytesList, oneof="kind"),
        "float_list": Field(2, FloatList, oneof="kind"),
        "int64_list": Field(3, Int64List, oneof="kind"),
    }


class Features(Message):
    """Features by name: ``Features(feature={"x": Feature(...)})``."""

    feature: Map
    FIELDS: ClassVar[dict[str, Field]] = {"feature": Field(1, Feature, mapped=True)}


class FeatureList(Message):
    """A feature for each step of a sequence."""

    feature: Repeated
    FIELDS: ClassVar[dict[str, Field]] = {"feature": Field(1, Feature, True)}


class FeatureLists(Message):
    """Lists of features by name."""

    feature_list: Map
    FIELDS: ClassVar[dict[str, Field]] = {"feature_list": Field(1, FeatureList, mapped=True)}


class Example(Message):
    """What is known of one thing: its features."""

    features: Features
    FIELDS: ClassVar[dict[str, Field]] = {"features": Field(1, Features)}


class SequenceExample(Message):
    """What is known of one sequence: features of the whole, and of each step."""

    context: Features
    feature_lists: FeatureLists
    FIELDS: ClassVar[dict[str, Field]] = {
        "context": Field(1, Features), "feature_lists": Field(2, FeatureLists),
    }  # fmt: skip
