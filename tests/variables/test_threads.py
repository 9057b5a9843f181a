"""Two threads that want one variable at once: the second comes while the first makes it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import dtfzmq as tf
from dtfzmq.contrib import collecting
from dtfzmq.contrib import variables as slim_variables
from dtfzmq.layers import base as layers
from dtfzmq.variables import scope as scopes
from tests.kit.rival import Rival


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def _zeros(come: Callable[[], None]) -> Callable[..., Any]:
    def initializer(shape: Any, dtype: Any = None, **_: Any) -> Any:
        come()
        return tf.zeros(shape, dtype)

    return initializer


def _both(graph: Any, make: Callable[[Callable[[], None]], Any]) -> list[Any]:
    """What `make(come)` gives in this thread and in one that comes when it calls `come`."""

    def there() -> Any:
        with graph.as_default():
            return make(lambda: None)

    rival = Rival(there)
    store = scopes._store(graph)
    store.lock = rival.watched(store.lock)
    return [make(rival.come), rival.result()]


def test_a_variable_is_made_once(graph):
    made, error = _both(graph, lambda come: tf.get_variable("w", [2], initializer=_zeros(come)))
    assert made.name == "w:0" and isinstance(error, ValueError) and "w already exists" in str(error)


def test_a_variable_is_found_by_the_second(graph):
    def make(come: Callable[[], None]) -> Any:
        with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
            return tf.get_variable("w", [2], initializer=_zeros(come))

    first, second = _both(graph, make)
    assert first is second and first.name == "s/w:0"


def test_a_partitioned_variable_is_found_by_the_second(graph):
    def make(come: Callable[[], None]) -> Any:
        with tf.variable_scope("s", reuse=tf.AUTO_REUSE, partitioner=tf.fixed_size_partitioner(2)):
            return tf.get_variable("w", [4], initializer=_zeros(come))

    first, second = _both(graph, make)
    assert first is second and len(first) == 2


def test_an_initializer_may_make_variables(graph):
    def initializer(shape: Any, dtype: Any = None, **_: Any) -> Any:
        return tf.get_variable("inner", shape, initializer=tf.ones_initializer()).initialized_value()

    outer = tf.get_variable("outer", [2], initializer=initializer)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(outer).tolist() == [1.0, 1.0]


def test_the_global_step_is_made_once(graph, monkeypatch):
    coming: list[Callable[[], None]] = []
    get = tf.train.get_global_step.__globals__["get_variable"]
    monkeypatch.setitem(
        tf.train.get_global_step.__globals__, "get_variable", lambda *a, **k: coming[0]() or get(*a, **k)
    )

    def make(come: Callable[[], None]) -> Any:
        coming.append(come)
        return tf.train.get_or_create_global_step()

    first, second = _both(graph, make)
    assert first is second and tf.get_collection(tf.GraphKeys.GLOBAL_STEP) == [first]


def test_slots_are_made_once(graph):
    w = tf.get_variable("w", [2])
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    coming: list[Callable[[], None]] = []

    def creator(next_creator: Any, **settings: Any) -> Any:
        coming[0]()
        return next_creator(**settings)

    def make(come: Callable[[], None]) -> Any:
        coming.append(come)
        with tf.variable_creator_scope(creator):
            return optimizer.apply_gradients([(tf.ones([2]), w)])

    for made in _both(graph, make):
        assert isinstance(made, tf.Operation), made
    assert [v.name for v in tf.global_variables()] == ["w:0", "w/Momentum:0"]


def test_an_average_is_kept_once(graph):
    w = tf.get_variable("w", [2])
    averages = tf.train.ExponentialMovingAverage(0.9)
    coming: list[Callable[[], None]] = []

    def creator(next_creator: Any, **settings: Any) -> Any:
        coming[0]()
        return next_creator(**settings)

    def make(come: Callable[[], None]) -> Any:
        coming.append(come)
        with tf.variable_creator_scope(creator):
            return averages.apply([w])

    _, error = _both(graph, make)
    assert isinstance(error, ValueError) and "Moving average already computed for: w:0" in str(error)
    assert [v.name for v in tf.global_variables()] == ["w:0", "w/ExponentialMovingAverage:0"]


class Added(tf.layers.Layer):
    """A layer in whose building a rival comes."""

    def __init__(self, coming: list[Callable[[], None]]) -> None:
        super().__init__()
        self._coming = coming

    def build(self, shape: Any) -> None:
        self._coming[0]()
        self.weight = self.add_weight("weight", [2])

    def call(self, inputs: Any) -> Any:
        return inputs + self.weight


def test_a_layer_is_built_once(graph):
    coming: list[Callable[[], None]] = []
    layer = Added(coming)

    def make(come: Callable[[], None]) -> Any:
        coming.append(come)
        return layer(tf.ones([1, 2]))

    for made in _both(graph, make):
        assert isinstance(made, tf.Tensor), made
    assert [v.name for v in tf.global_variables()] == ["added/weight:0"]


def test_a_layer_has_one_scope(graph, monkeypatch):
    coming: list[Callable[[], None]] = []
    enter, layer = tf.variable_scope.__enter__, tf.layers.Dense(3)

    def entered(self: Any) -> Any:
        coming[0]()
        return enter(self)

    monkeypatch.setattr(tf.variable_scope, "__enter__", entered)

    def make(come: Callable[[], None]) -> Any:
        coming.append(come)
        layer(tf.ones([1, 2]))
        return layer._scope

    first, second = _both(graph, make)
    assert first is second and first.name == "dense"


def test_layers_have_different_names(graph):
    coming: list[Callable[[], None]] = []
    class Counts(dict[str, int]):
        def get(self, *args: Any) -> Any:
            found = super().get(*args)
            coming[0]()
            return found

    graph.add_to_collection("__layer_names", Counts())

    def make(come: Callable[[], None]) -> Any:
        coming.append(come)
        return tf.layers.Dense(3).name

    assert set(_both(graph, make)) == {"dense_1", "dense_2"}


def test_a_template_makes_its_variables_once(graph):
    coming: list[Callable[[], None]] = []
    template = tf.make_template("t", lambda: tf.get_variable("w", [2], initializer=_zeros(lambda: coming[0]())))

    def make(come: Callable[[], None]) -> Any:
        coming.append(come)
        return template()

    first, second = _both(graph, make)
    assert first is second and first.name == "t/w:0"


@pytest.mark.parametrize(
    "add",
    [
        slim_variables.add_model_variable,
        lambda v: collecting.add_variable(v, [tf.GraphKeys.MODEL_VARIABLES], "v"),
        lambda v: layers._add_new(tf.GraphKeys.MODEL_VARIABLES, [v]),
    ],
)
def test_what_is_collected_once_is_collected_once(add, graph, monkeypatch):
    v = tf.get_variable("v", [2])
    coming: list[Callable[[], None]] = []

    class Items(list[Any]):
        def __iter__(self) -> Any:
            yield from tuple(super().__iter__())
            coming[0]()

    graph._collections[tf.GraphKeys.MODEL_VARIABLES] = Items(["other"])
    monkeypatch.setattr(graph, "get_collection", lambda key, scope=None: graph._collections.get(key, []))

    def make(come: Callable[[], None]) -> None:
        coming.append(come)
        add(v)

    _both(graph, make)
    assert len(graph._collections[tf.GraphKeys.MODEL_VARIABLES]) == 2


def test_all_threads_have_one_store(graph, monkeypatch):
    def there() -> Any:
        return scopes._store(graph)

    rival, real = Rival(there), scopes.VariableStore

    def store() -> Any:
        if threading.current_thread() is threading.main_thread():
            rival.come()
        return real()

    monkeypatch.setattr(scopes, "VariableStore", store)
    assert scopes._store(graph) is rival.result() is scopes._store(graph)


def test_creators_are_each_threads_own(graph):
    def refuses(next_creator: Any, **settings: Any) -> Any:
        raise AssertionError("another thread's variable")

    def there() -> Any:
        with graph.as_default():
            return tf.get_variable("w", [2])

    rival = Rival(there)
    with tf.variable_creator_scope(refuses):
        rival.come()
    assert rival.result().name == "w:0"
