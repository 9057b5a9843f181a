"""TensorFlow 1's module-level functions on the default graph: scopes, collections, seeds."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dtfzmq.graph.func_graph import FuncGraph
from dtfzmq.graph.graph import get_default_graph
from dtfzmq.graph.registry import graph_of


class name_scope:  # TensorFlow's name
    """``with tf.name_scope(name, default_name, values) as scope``: prefix names; yields ``"name/"``.

    With `values`, the scope is opened in the graph of the tensors among them. Raises ValueError if there are values
    but neither name.
    """

    def __init__(self, name: str | None, default_name: str | None = None, values: Iterable[Any] | None = None) -> None:
        self._name = default_name if name is None else name
        self._values = list(values) if values is not None else []
        if self._name is None and values is not None:
            raise ValueError("At least one of name and default_name should be provided.")
        self._stack = contextlib.ExitStack()

    @property
    def name(self) -> str | None:
        """The name asked for."""
        return self._name

    def __enter__(self) -> str:
        graph = graph_of(self._values)
        if graph is not get_default_graph():
            self._stack.enter_context(graph.as_default())
        return self._stack.enter_context(graph.name_scope(self._name))

    def __exit__(self, *exc: Any) -> None:
        self._stack.__exit__(*exc)


def op_scope(values: Iterable[Any], name: str | None, default_name: str | None = None) -> name_scope:
    """The old spelling of `name_scope`."""
    return name_scope(name, default_name, values)


def device(spec: Any) -> contextlib.AbstractContextManager[None]:
    """``Graph.device`` of the default graph."""
    return get_default_graph().device(spec)


def control_dependencies(control_inputs: Iterable[Any] | None) -> contextlib.AbstractContextManager[None]:
    """``Graph.control_dependencies`` of the default graph."""
    return get_default_graph().control_dependencies(control_inputs)


@contextlib.contextmanager
def colocate_with(op: Any, ignore_existing: bool = False) -> Iterator[None]:
    """``Graph.colocate_with`` of the default graph."""
    with get_default_graph().colocate_with(op, ignore_existing):
        yield


def container(name: str) -> contextlib.AbstractContextManager[str]:
    """``Graph.container`` of the default graph."""
    return get_default_graph().container(name)


@contextlib.contextmanager
def init_scope() -> Iterator[None]:
    """Leave control dependencies, branches and bodies: what is made inside belongs to the outermost graph."""
    graph = get_default_graph()
    scope = graph.get_name_scope()
    while isinstance(graph, FuncGraph):
        graph = graph.outer
    with graph.as_default(), graph.control_dependencies(None):
        with graph.name_scope(scope + "/" if scope else None):
            yield


def add_to_collection(name: Any, value: Any) -> None:
    """``Graph.add_to_collection`` of the default graph."""
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    """``Graph.add_to_collections`` of the default graph."""
    get_default_graph().add_to_collections(names, value)


def get_collection(key: Any, scope: str | None = None) -> list[Any]:
    """``Graph.get_collection`` of the default graph."""
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: Any) -> list[Any]:
    """``Graph.get_collection_ref`` of the default graph."""
    return get_default_graph().get_collection_ref(key)


def set_random_seed(seed: int | None) -> None:
    """Set the graph-level seed of the default graph."""
    get_default_graph().seed = seed


DEFAULT_GRAPH_SEED = 87654321
_MOST = 2**31 - 1


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """Graph seed and op seed of a random op made now, as TensorFlow derives them; (None, None): not determined.

    With a graph seed alone the ops without a seed are counted, so that equal programs draw equal numbers. Both seeds
    are in [0, 2**31 - 1), and not both 0, which would mean "no seed". Source: ``random_seed.get_seed``; TensorFlow
    1.15 counts all ops made before.
    """
    graph = get_default_graph()
    if graph.seed is None and op_seed is None:
        return None, None
    first = DEFAULT_GRAPH_SEED if graph.seed is None else _cut(graph.seed, "the graph, tf.set_random_seed,")
    seeds = first, _cut(graph.next_op_seed() if op_seed is None else op_seed, "an operation")
    return seeds if any(seeds) else (0, _MOST)


def _cut(seed: Any, whose: str) -> int:
    """A seed in [0, 2**31 - 1); as in TensorFlow, a float loses its fraction."""
    number = seed.item() if isinstance(seed, (np.generic, np.ndarray)) and seed.ndim == 0 else seed
    if isinstance(number, int) or (isinstance(number, float) and math.isfinite(number)):
        return int(number % _MOST)
    raise TypeError(f"The seed of {whose} must be an integer, not {seed!r:.80}.")
