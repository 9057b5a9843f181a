"""What `run` is given: feed keys become tensors, feed values become arrays of the tensor's type and shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dtfzmq.base.names import article
from dtfzmq.client.fetches import conversion
from dtfzmq.graph.graph import Graph, Tensor


class FeedSlot:
    """One fed tensor with what its values are checked against; made once per call signature."""

    __slots__ = ("dims", "dtype", "is_string", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.dtype: Any = np.dtype(tensor.dtype.base_dtype.as_numpy_dtype)
        self.is_string = self.dtype == object
        shape = tensor.get_shape()
        # None: any shape fits; else a tuple in which None is any size.
        self.dims: tuple[int | None, ...] | None = None if shape.ndims is None else tuple(shape.as_list())

    def convert(self, value: Any) -> np.ndarray:
        """`value` as an array, itself if it is one that fits. TypeError or ValueError in TF1's words if it does not.

        What outlives the run is copied by whoever keeps it.

        Anything numpy converts is taken: a float64 for a float32, a list, a big-endian or reversed view.
        """
        try:
            if type(value) in _PLAIN and not self.is_string:
                array = self._array(value)
            else:
                array = self._checked(value)
        except OverflowError:
            raise self._refused(value) from None
        if array.shape != self.dims:
            self._check_shape(array)
        return array

    def _checked(self, value: Any) -> np.ndarray:
        name = self.tensor.name
        if isinstance(value, Tensor):
            raise TypeError(
                "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, "
                "strings, lists, numpy ndarrays, or TensorHandles. For reference, the tensor object was "
                f"{value} which was passed to the feed with key {name}."
            )
        if isinstance(value, np.ndarray):
            if hasattr(value, "mask"):
                raise TypeError(
                    f"The value fed to '{name}' is a masked array, and a mask cannot travel; "
                    "feed value.filled(...) instead."
                )
            if value.dtype.kind in "VMm" and value.dtype != self.dtype or value.dtype.char in "gG":
                raise TypeError(
                    f"The value fed to '{name}' has dtype {value.dtype}, which has no tensor type; "
                    f"convert it to {self.dtype} first."
                )
        elif hasattr(value, "_as_graph_element"):
            raise TypeError(
                f"The value of a feed cannot be {article(type(value).__name__)}; feed a value for '{name}', e.g. "
                "one that was fetched before."
            )
        if self.is_string:
            return _strings(value, name)
        if isinstance(value, int) and not isinstance(value, bool):
            array = self._array(value)
            if array != value and self.dtype.kind in "iu":
                raise self._refused(value)
            return array
        return self._array(value)

    def _array(self, value: Any) -> np.ndarray:
        try:
            return np.asarray(value, self.dtype, order="C")
        except (TypeError, ValueError) as error:
            kind = ValueError if isinstance(error, ValueError) else TypeError
            what = f"{type(value).__name__} fed to '{self.tensor.name}'"
            raise kind(f"The {what} cannot be made a tensor of {self.dtype.name}: {error}.") from None

    def _refused(self, value: Any) -> TypeError:
        return TypeError(
            f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type {self.dtype.type}. "
            "Try explicitly setting the type of the feed tensor to a larger type (e.g. int64)."
        )

    def _check_shape(self, array: np.ndarray) -> None:
        dims = self.dims
        if dims is None:
            return
        if len(dims) == array.ndim and all(d is None or d == n for d, n in zip(dims, array.shape)):
            return
        raise ValueError(
            f"Cannot feed value of shape {array.shape!r} for Tensor {self.tensor.name!r}, which has "
            f"shape '{self.tensor.get_shape()}'"
        )


# Exact types whose conversion needs no look: everything else is checked first.
_PLAIN = frozenset({float, bool, list, np.float32, np.float64, np.int32, np.int64})


def _strings(value: Any, name: str) -> np.ndarray:
    """An object array of bytes: str as UTF-8, bytes as they are. TypeError naming the feed for anything else."""
    array = np.array(value, dtype=object) if not isinstance(value, np.ndarray) else value
    flat = array.ravel().tolist()
    for i, item in enumerate(flat):
        if isinstance(item, str):
            flat[i] = item.encode("utf-8")
        elif not isinstance(item, bytes):
            raise TypeError(
                f"The value fed to '{name}' holds {article(type(item).__name__)}; a string tensor takes str or bytes."
            )
    made = np.empty(array.size, object)
    made[:] = flat
    return made.reshape(array.shape)


def flatten(graph: Graph, feed_dict: Mapping[Any, Any]) -> Iterator[tuple[Tensor, Any]]:
    """(tensor, value) of every feed, nested keys and registered types taken apart.

    TypeError if a key is no tensor of the graph or no dict was given; ValueError if a tensor may not be fed or the
    structure of a nested key and its value differ.
    """
    if not isinstance(feed_dict, Mapping):
        raise TypeError(f"feed_dict must be a dictionary from tensors to values, not {type(feed_dict).__name__}.")
    for key, value in _pairs(feed_dict):
        yield fed_tensor(graph, key), value


def fed_tensor(graph: Graph, key: Any) -> Tensor:
    """The tensor that a feed key means. TypeError if it is none of the graph's, ValueError if it may not be fed."""
    if isinstance(key, Tensor) and key.graph is graph:
        tensor = key
    else:
        try:
            tensor = graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
        except (TypeError, ValueError, KeyError) as error:
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error.args[0]}") from None
    if not graph.is_feedable(tensor):
        raise ValueError(f"Tensor {tensor.name} may not be fed.")
    return tensor


def fed_tensors(graph: Graph, key: Any) -> list[Tensor]:
    """The tensors that a feed key stands for, without a value to go by."""
    if isinstance(key, (tuple, list)) and conversion(key) is None:
        return [tensor for inner in key for tensor in fed_tensors(graph, inner)]
    known = conversion(key)
    if known is not None and known.keys is not None:
        return [fed_tensor(graph, element) for element in known.keys(key)]
    return [fed_tensor(graph, key)]


def _pairs(feed_dict: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    for key, value in feed_dict.items():
        known = conversion(key)
        if known is not None and known.feed is not None:
            yield from known.feed(key, value)
        elif isinstance(key, (tuple, list)):
            if not isinstance(value, (tuple, list)) or len(key) != len(value):
                raise ValueError(
                    f"Could not flatten dictionary. Key had {len(key)} elements, but value had "
                    f"{len(value) if isinstance(value, (tuple, list)) else 1} elements. Key: {key!r}, "
                    f"value: {value!r}."
                )
            for inner_key, inner_value in zip(key, value):
                yield from _pairs({inner_key: inner_value})
        else:
            yield key, value
