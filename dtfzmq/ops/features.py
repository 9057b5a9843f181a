"""What a program asks of examples: features by name, and how they become tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.ops import constants, sparse_reduce
from dtfzmq.ops.array import reshape

_TYPES = (dtypes.float32, dtypes.int64, dtypes.string)


class VarLenFeature(NamedTuple):
    """As many values as there are, in a SparseTensor."""

    dtype: Any


class FixedLenFeature(NamedTuple):
    """A tensor of this shape. An example without it has the default, or is an error if there is none."""

    shape: Any
    dtype: Any
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A list of tensors of this shape, filled up to the longest list with the default, or with zeros or ""."""

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class SparseFeature(NamedTuple):
    """A SparseTensor of a feature of values and one of their indices, or several."""

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False


class Wanted:
    """Features sorted by name and by what they become. ValueError for those that say too little."""

    def __init__(self, features: Mapping[str, Any] | None, kinds: tuple[type, ...]) -> None:
        self.sparse: dict[str, DType] = {}
        self.dense: dict[str, DType] = {}
        self.shapes: list[TensorShape] = []
        self.defaults: dict[str, Any] = {}
        #: Lists of steps that may be missing.
        self.optional: set[str] = set()
        for key in sorted(features or {}):
            asked = (features or {})[key]
            if not isinstance(asked, kinds):
                raise ValueError(f"Unsupported {type(asked).__name__} {asked} for key '{key}'")
            self._add(key, asked)
        both = sorted(set(self.sparse) & set(self.dense))
        if both:
            raise ValueError(
                f"Dense and sparse keys must not intersect; dense_keys: {list(self.dense)}, sparse_keys: "
                f"{list(self.sparse)}, intersection: {set(both)}"
            )

    @property
    def count(self) -> int:
        """How many features there are."""
        return len(self.sparse) + len(self.dense)

    def _add(self, key: str, asked: Any) -> None:
        if isinstance(asked, SparseFeature):
            for name in ("index_key", "value_key"):
                if not getattr(asked, name):
                    raise ValueError(f"Missing {name} for SparseFeature {asked}.")
        if not asked.dtype:
            raise ValueError(f"Missing type for feature {key}. Received feature={asked}.")
        kind = dtypes.as_dtype(asked.dtype)
        if isinstance(asked, SparseFeature):
            for index in sorted(index_keys(asked)):
                self._add_sparse(index, dtypes.int64)
            self._add_sparse(asked.value_key, kind)
        elif isinstance(asked, VarLenFeature):
            self._add_sparse(key, kind)
        else:
            self._add_dense(key, asked, kind)

    def _add_sparse(self, key: str, kind: DType) -> None:
        if self.sparse.setdefault(key, kind) is not kind:
            raise ValueError(f"Conflicting type {self.sparse[key]} vs {kind} for feature {key}.")
        _check(key, kind)

    def _add_dense(self, key: str, asked: Any, kind: DType) -> None:
        if asked.shape is None:
            raise ValueError(f"Missing shape for feature {key}. Received feature={asked}.")
        shape = as_shape(asked.shape)
        if isinstance(asked, FixedLenFeature):
            if shape.ndims and shape.as_list()[0] is None:
                raise ValueError(
                    f"First dimension of shape for feature {key} unknown. Consider using FixedLenSequenceFeature. "
                    f"Received feature={asked}."
                )
            if not shape.is_fully_defined():
                raise ValueError(
                    f"All dimensions of shape for feature {key} need to be known but received {asked.shape!s}."
                )
        elif asked.allow_missing:
            self.optional.add(key)
        _check(key, kind)
        self.dense[key] = kind
        self.shapes.append(shape)
        if asked.default_value is not None:
            self.defaults[key] = asked.default_value

    def default_tensors(self) -> list[Tensor]:
        """The default of each dense feature: no elements if it is required; of a list the one element that fills it."""
        out = []
        for (key, kind), shape in zip(self.dense.items(), self.shapes):
            value, name = self.defaults.get(key), re.sub(r"[^A-Za-z0-9_.\-/]", "_", key)
            if shape.ndims and shape.as_list()[0] is None:
                if value is None:
                    value = "" if kind is dtypes.string else 0
                out.append(reshape(convert_to_tensor(value, dtype=kind, name=f"padding_{name}"), []))
            elif value is None:
                out.append(constants.constant([], dtype=kind))
            elif isinstance(value, Tensor):
                out.append(value)
            else:
                out.append(reshape(convert_to_tensor(value, dtype=kind, name=f"key_{name}"), shape))
        return out


def _check(key: str, kind: DType) -> None:
    if kind not in _TYPES:
        raise TypeError(
            f"Feature {key} has DataType {kind.name} not in list of allowed values: float32, int64, string"
        )


def index_keys(asked: SparseFeature) -> list[str]:
    """The names of the features of indices."""
    return [asked.index_key] if isinstance(asked.index_key, str) else list(asked.index_key)


def lists_of_any_length(features: Mapping[str, Any]) -> dict[str, Any]:
    """Features of examples, with lists as shapes whose first size is not known."""
    out = dict(features)
    for key, asked in features.items():
        if isinstance(asked, FixedLenSequenceFeature):
            if not asked.allow_missing:
                raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
            out[key] = asked._replace(shape=[None, *as_shape(asked.shape).as_list()])
    return out


def merged(features: Mapping[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    """The tensors that were asked for: those of SparseFeatures are made of their parts."""
    made: dict[str, Any] = {}
    for key in sorted(features):
        asked = features[key]
        if isinstance(asked, SparseFeature):
            ids = [tensors[name] for name in index_keys(asked)]
            made[key] = sparse_reduce.sparse_merge(
                ids[0] if isinstance(asked.index_key, str) else ids, tensors[asked.value_key], asked.size,
                already_sorted=asked.already_sorted,
            )  # fmt: skip
        else:
            made[key] = tensors[key]
    return made


def names_of(keys: Iterable[str]) -> list[str]:
    """Names as attributes have them."""
    return [key.decode() if isinstance(key, bytes) else str(key) for key in keys]
