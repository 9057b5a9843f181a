"""What `run` is asked for: any nesting of fetches becomes a list of tensors and ops; results take its shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dtfzmq.graph.graph import Graph, Operation, Tensor
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.graph.sparse import SparseTensor, SparseTensorValue

Build = Callable[[Sequence[Any]], Any]


class Conversion(NamedTuple):
    """How values of a type are fetched and fed; each part may be missing."""

    type: type
    #: value -> (elements to fetch, how the fetched elements become the result)
    fetch: Callable[[Any], tuple[Sequence[Any], Callable[[list[Any]], Any]]] | None
    #: (key, value) -> (tensor, value) pairs
    feed: Callable[[Any, Any], Sequence[tuple[Any, Any]]] | None
    #: key -> the tensors that `feed` gives, for feeds that are named before they have values
    keys: Callable[[Any], Sequence[Any]] | None


# Later registrations are asked first, as the narrower types.
_conversions: list[Conversion] = []


def register_session_run_conversion_functions(
    tensor_type: type,
    fetch_function: Callable[[Any], tuple[Sequence[Any], Callable[[list[Any]], Any]]] | None = None,
    feed_function: Callable[[Any, Any], Sequence[tuple[Any, Any]]] | None = None,
    feed_function_for_partial_run: Callable[[Any], Sequence[Any]] | None = None,
) -> None:
    """Let values of `tensor_type` be fetched and fed. ValueError if the type is registered already."""
    if any(tensor_type is known.type for known in _conversions):
        raise ValueError(f"{tensor_type} has already been registered so ignore it.")
    _conversions.insert(0, Conversion(tensor_type, fetch_function, feed_function, feed_function_for_partial_run))


def conversion(value: Any) -> Conversion | None:
    """The registered conversion of a value's type, None for plain values."""
    for known in _conversions:
        if isinstance(value, known.type):
            return known
    return None


class Fetches:
    """A compiled fetch argument: `tensors` and `targets` without repeats, and `build(values)` for the result.

    `values` are the results of `tensors`, in order. `single` says that the result is the one value itself.
    """

    __slots__ = ("_seen", "build", "graph", "single", "targets", "tensors")

    def __init__(self, graph: Graph, fetches: Any) -> None:
        self.graph = graph
        self.tensors: list[Tensor] = []
        self.targets: list[Operation] = []
        self._seen: dict[Any, int] = {}
        self.build: Build = self._compile(fetches)
        self.single = isinstance(fetches, Tensor) and len(self.tensors) == 1

    def _compile(self, fetch: Any) -> Build:
        if fetch is None:
            raise TypeError(f"Fetch argument {fetch!r} has invalid type {type(fetch)!r}")
        if isinstance(fetch, (list, tuple)):
            return self._sequence(fetch)
        if isinstance(fetch, Mapping):
            return self._mapping(fetch)
        if hasattr(type(fetch), "__attrs_attrs__"):
            names = [a.name for a in type(fetch).__attrs_attrs__]
            kind = type(fetch)
            parts = [self._compile(getattr(fetch, name)) for name in names]
            return lambda values: kind(*[part(values) for part in parts])
        known = conversion(fetch)
        if known is not None and known.fetch is not None:
            elements, contraction = known.fetch(fetch)
            leaves = [self._leaf(element) for element in elements]
            return lambda values: contraction([leaf(values) for leaf in leaves])
        return self._leaf(fetch)

    def _sequence(self, fetch: Sequence[Any]) -> Build:
        parts = [self._compile(item) for item in fetch]
        kind: Any = type(fetch)
        if kind is list:
            return lambda values: [part(values) for part in parts]
        if kind is tuple:
            return lambda values: tuple([part(values) for part in parts])
        if hasattr(kind, "_fields"):
            return lambda values: kind(*[part(values) for part in parts])
        return lambda values: kind([part(values) for part in parts])

    def _mapping(self, fetch: Mapping[Any, Any]) -> Build:
        kind: Any = type(fetch)
        parts = [(key, self._compile(value)) for key, value in fetch.items()]
        if kind is dict:
            return lambda values: {key: part(values) for key, part in parts}

        def build(values: Sequence[Any]) -> Any:
            made = kind()
            for key, part in parts:
                made[key] = part(values)
            return made

        return build

    def _leaf(self, fetch: Any) -> Build:
        graph = self.graph
        try:
            element = graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
        except TypeError as error:
            raise TypeError(
                f"Fetch argument {fetch!r} has invalid type {type(fetch)!r}, must be a string or Tensor. ({error})"
            ) from None
        except (ValueError, KeyError) as error:
            text = error.args[0] if error.args else error
            raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({text})") from None
        if not graph.is_fetchable(element):
            raise ValueError(f"Operation {element.name!r} has been marked as not fetchable.")
        index = self._seen.get(element)
        if isinstance(element, Operation):
            if index is None:
                self._seen[element] = len(self.targets)
                self.targets.append(element)
            return lambda values: None
        if index is None:
            index = self._seen[element] = len(self.tensors)
            self.tensors.append(element)
        at = index
        return lambda values: values[at]


class IndexedSlicesValue(NamedTuple):
    """A fetched IndexedSlices."""

    values: Any
    indices: Any
    dense_shape: Any


def _slices_keys(slices: IndexedSlices) -> list[Tensor]:
    parts = [slices.values, slices.indices]
    return parts if slices.dense_shape is None else [*parts, slices.dense_shape]


def _sparse_keys(sparse: SparseTensor) -> list[Tensor]:
    return [sparse.indices, sparse.values, sparse.dense_shape]


def _slices_result(got: list[Any]) -> IndexedSlicesValue:
    return IndexedSlicesValue(got[0], got[1], got[2] if len(got) > 2 else None)


register_session_run_conversion_functions(
    IndexedSlices,
    lambda slices: (_slices_keys(slices), _slices_result),
    lambda slices, value: list(zip(_slices_keys(slices), value)),
    _slices_keys,
)

register_session_run_conversion_functions(
    SparseTensor,
    lambda sparse: (_sparse_keys(sparse), lambda got: SparseTensorValue(*got)),
    lambda sparse, value: list(zip(_sparse_keys(sparse), value)),
    _sparse_keys,
)
