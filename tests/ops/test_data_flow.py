"""Queues and accumulators through sessions: order, blocking, closing, sharing, cancellation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import threads
from tests.kit.servers import start
from tests.kit.waiting import wait_for


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def session(graph: tf.Graph) -> Iterator[tf.Session]:
    with tf.Session(graph=graph) as made:
        yield made


class Blocked:
    """`session.run(fetch)` on a thread of its own; `result()` waits for its end."""

    def __init__(self, session: tf.Session, fetch: Any, **options: Any) -> None:
        self._value: Any = None
        self._error: BaseException | None = None

        def body() -> None:
            try:
                self._value = session.run(fetch, **options)
            except Exception as error:
                self._error = error

        self.thread = threads.start(body, "blocked")

    def result(self) -> Any:
        self.thread.join(20)
        assert not self.thread.is_alive(), "still blocked"
        if self._error is not None:
            raise self._error
        return self._value


def test_first_in_first_out(session: tf.Session) -> None:
    q = tf.FIFOQueue(10, tf.float32, shapes=[[]])
    x = tf.placeholder(tf.float32, [])
    put, get, size = q.enqueue(x), q.dequeue(), q.size()
    for value in (3.0, 1.0, 2.0):
        session.run(put, {x: value})
    assert session.run(size) == 3
    assert [session.run(get) for _ in range(3)] == [3.0, 1.0, 2.0]
    assert get.get_shape().as_list() == []


def test_names_of_ops(graph: tf.Graph) -> None:
    q = tf.FIFOQueue(10, [tf.int32], name="jobs")
    assert q.name == "jobs"
    assert q.queue_ref.op.type == "FIFOQueueV2"
    assert q.enqueue(1).name == "jobs_enqueue"
    assert q.dequeue().op.name == "jobs_Dequeue"
    assert q.size().op.name == "jobs_Size"
    assert q.close().name == "jobs_Close"
    assert (q.dtypes, q.names) == ([tf.int32], None)


def test_several_components_and_names(session: tf.Session) -> None:
    q = tf.FIFOQueue(10, [tf.int32, tf.string], shapes=[[2], []])
    session.run(q.enqueue([[1, 2], "a"]))
    pair = session.run(q.dequeue())
    assert (pair[0].tolist(), pair[1]) == ([1, 2], b"a")
    named = tf.FIFOQueue(10, [tf.int32, tf.float32], names=["i", "f"], shapes=[[], []])
    session.run(named.enqueue({"i": 1, "f": 2.0}))
    assert session.run(named.dequeue()) == {"i": 1, "f": 2.0}
    with pytest.raises(ValueError, match="must enqueue a dictionary"):
        named.enqueue([1, 2.0])
    with pytest.raises(ValueError, match="do not match names of Queue"):
        named.enqueue({"i": 1})
    with pytest.raises(ValueError, match="Queue must have names"):
        q.enqueue({"i": 1})


def test_many_at_once(session: tf.Session) -> None:
    q = tf.FIFOQueue(10, [tf.int32, tf.float32], shapes=[[], [2]])
    session.run(q.enqueue_many([[1, 2, 3], np.arange(6, dtype="float32").reshape(3, 2)]))
    out = q.dequeue_many(2)
    assert [t.get_shape().as_list() for t in out] == [[2], [2, 2]]
    numbers, pairs = session.run(out)
    assert numbers.tolist() == [1, 2] and pairs.tolist() == [[0, 1], [2, 3]]
    session.run(q.close())
    numbers, pairs = session.run(q.dequeue_up_to(5))
    assert numbers.tolist() == [3] and pairs.tolist() == [[4, 5]]


def test_wrong_elements() -> None:
    q = tf.FIFOQueue(10, [tf.int32], shapes=[[2]])
    with pytest.raises(ValueError, match="compatible"):
        q.enqueue([[1, 2, 3]])
    with pytest.raises(ValueError):
        q.enqueue([tf.constant([1.0, 2.0])])
    with pytest.raises(ValueError, match="same length as dtypes"):
        tf.FIFOQueue(10, [tf.int32, tf.int32], shapes=[[2]])
    with pytest.raises(ValueError, match="must be fully defined"):
        tf.FIFOQueue(10, [tf.int32], shapes=[[None]])


def test_a_dequeue_waits_for_an_enqueue(session: tf.Session) -> None:
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    put, size, get = q.enqueue(7), q.size(), q.dequeue()
    waiting = Blocked(session, get)
    assert session.run(size) == 0
    session.run(put)
    assert waiting.result() == 7


def test_an_enqueue_waits_for_room(session: tf.Session) -> None:
    q = tf.FIFOQueue(1, tf.int32, shapes=[[]])
    first, second, get = q.enqueue(1), q.enqueue(2), q.dequeue()
    session.run(first)
    waiting = Blocked(session, second)
    assert session.run(get) == 1
    waiting.result()
    assert session.run(get) == 2


def test_many_waiting_steps_hold_no_threads(session: tf.Session) -> None:
    q = tf.FIFOQueue(-1, tf.int32, shapes=[[]])
    put, get = q.enqueue_many([list(range(20))]), q.dequeue()
    waiting = [Blocked(session, get) for _ in range(20)]
    session.run(put)
    assert sorted(w.result() for w in waiting) == list(range(20))


def test_closing(session: tf.Session) -> None:
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]], name="q")
    put, get, close, closed = q.enqueue(1), q.dequeue(), q.close(), q.is_closed()
    session.run(put)
    assert not session.run(closed)
    session.run(close)
    assert session.run(closed)
    with pytest.raises(tf.errors.CancelledError, match="FIFOQueue 'q' is closed."):
        session.run(put)
    assert session.run(get) == 1
    with pytest.raises(tf.errors.OutOfRangeError, match="insufficient elements .requested 1, current size 0") as caught:
        session.run(get)
    assert caught.value.op is get.op
    with pytest.raises(tf.errors.CancelledError, match="Queue 'q' is already closed."):
        session.run(close)


def test_closing_wakes_a_blocked_dequeue(session: tf.Session) -> None:
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    get, close = q.dequeue(), q.close()
    waiting = Blocked(session, get)
    session.run(close)
    with pytest.raises(tf.errors.OutOfRangeError, match="insufficient elements"):
        waiting.result()


def test_closing_may_cancel_pending_enqueues(session: tf.Session) -> None:
    q = tf.FIFOQueue(1, tf.int32, shapes=[[]])
    put, get, close = q.enqueue(1), q.dequeue(), q.close(cancel_pending_enqueues=True)
    session.run(put)
    waiting = Blocked(session, put)
    wait_for(lambda: _try(session, close), what="the enqueue to be pending")
    with pytest.raises(tf.errors.CancelledError):
        waiting.result()
    assert session.run(get) == 1


def _try(session: tf.Session, close: tf.Operation) -> bool:
    session.run(close)
    return True


def test_a_dequeue_that_timed_out_leaves_no_ghost(session: tf.Session) -> None:
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    put, get, size = q.enqueue(7), q.dequeue(), q.size()
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(get, options=tf.RunOptions(timeout_in_ms=50))
    session.run(put)
    assert session.run(size) == 1
    assert session.run(get) == 7


def test_choosing_a_queue(session: tf.Session) -> None:
    queues = [tf.FIFOQueue(10, tf.int32, shapes=[[]]) for _ in range(2)]
    index = tf.placeholder(tf.int32, [])
    chosen = tf.QueueBase.from_list(index, queues)
    put = chosen.enqueue(5)
    session.run(put, {index: 1})
    assert session.run([q.size() for q in queues]) == [0, 1]
    with pytest.raises(TypeError, match="matching component dtypes"):
        tf.QueueBase.from_list(index, [queues[0], tf.FIFOQueue(10, tf.float32)])


def test_random_order_and_its_reserve(session: tf.Session) -> None:
    q = tf.RandomShuffleQueue(100, 10, tf.int32, shapes=[[]], seed=3)
    put, get, close = q.enqueue_many([list(range(50))]), q.dequeue_many(40), q.close()
    session.run(put)
    first = session.run(get).tolist()
    assert first != sorted(first)
    waiting = Blocked(session, q.dequeue())
    session.run(close)
    rest = [waiting.result(), *session.run(q.dequeue_many(9)).tolist()]
    assert sorted(first + rest) == list(range(50))


def test_padding(session: tf.Session) -> None:
    q = tf.PaddingFIFOQueue(10, [tf.int32], shapes=[[None]])
    session.run(q.enqueue([[1, 2, 3]]))
    session.run(q.enqueue([[4]]))
    assert session.run(q.dequeue_many(2)).tolist() == [[1, 2, 3], [4, 0, 0]]


def test_priorities(session: tf.Session) -> None:
    q = tf.PriorityQueue(10, [tf.string], shapes=[[]])
    for priority, text in ((3, "c"), (1, "a"), (2, "b")):
        session.run(q.enqueue([tf.constant(priority, tf.int64), text]))
    get = q.dequeue()
    assert [session.run(get)[1] for _ in range(3)] == [b"a", b"b", b"c"]


def test_means_of_gradients_and_stale_ones(session: tf.Session) -> None:
    a = tf.ConditionalAccumulator(tf.float32, shape=[2], name="a")
    grad, step = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int64, [])
    hand_in, take, count = a.apply_grad(grad, local_step=step), a.take_grad(2), a.num_accumulated()
    for value in (1.0, 3.0):
        session.run(hand_in, {grad: [value, value], step: 0})
    assert session.run(count) == 2
    assert session.run(take).tolist() == [2.0, 2.0]
    session.run(hand_in, {grad: [9.0, 9.0], step: 0})
    assert session.run(count) == 0, "the take moved the step on: a gradient of step 0 is stale"
    session.run(a.set_global_step(5))
    session.run(hand_in, {grad: [9.0, 9.0], step: 4})
    assert session.run(count) == 0
    waiting = Blocked(session, take)
    for value in (1.0, 2.0):
        session.run(hand_in, {grad: [value, value], step: 5})
    assert waiting.result().tolist() == [1.5, 1.5]


def test_sums_by_choice(session: tf.Session) -> None:
    a = tf.ConditionalAccumulator(tf.float32, shape=[], reduction_type="SUM")
    session.run([a.apply_grad(1.0), a.apply_grad(2.0)])
    assert session.run(a.take_grad(1)) == 3.0
    with pytest.raises(ValueError, match="reduction_type must be"):
        tf.ConditionalAccumulator(tf.float32, reduction_type="MAX")


def test_sparse_means_are_row_by_row(session: tf.Session) -> None:
    a = tf.SparseConditionalAccumulator(tf.float32, shape=[3, 2])
    session.run(a.apply_indexed_slices_grad(
        tf.IndexedSlices(tf.constant([[1.0, 0.0], [0.0, 2.0]]), tf.constant([0, 1]), tf.constant([3, 2]))
    ))  # fmt: skip
    session.run(a.apply_grad([0, 2], np.array([[0, 1], [3, 0]], "float32"), [3, 2]))
    indices, values, shape = session.run(a.take_grad(1))
    assert indices.tolist() == [0, 1, 2]
    assert values.tolist() == [[0.5, 0.5], [0.0, 2.0], [3.0, 0.0]]
    assert shape.tolist() == [3, 2]


SHARED = "/job:ps/task:0"


def shared_queue(name: str = "q", capacity: int = 10, dtype: Any = tf.float32) -> tuple[tf.Graph, tf.FIFOQueue]:
    graph = tf.Graph()
    with graph.as_default(), tf.device(SHARED):
        return graph, tf.FIFOQueue(capacity, dtype, shapes=[[]], shared_name=name)


def test_a_shared_queue_is_one_for_all_sessions_and_a_private_one_is_not() -> None:
    with start({"ps": 1, "worker": 2}) as servers:
        graph, q = shared_queue()
        with graph.as_default(), tf.device(SHARED):
            own = tf.FIFOQueue(10, tf.float32, shapes=[[]], name="own")
            put, size = [q.enqueue(1.0), own.enqueue(1.0)], [q.size(), own.size()]
            get = q.dequeue()
        with tf.Session(servers["worker:0"].target, graph=graph) as first:
            first.run(put)
            with tf.Session(servers["worker:1"].target, graph=graph) as second:
                assert second.run(size) == [1, 0]
                assert second.run(get) == 1.0
                waiting = Blocked(second, get)
                assert first.run(size) == [0, 1]
                first.run(put[0])
                assert waiting.result() == 1.0


def test_a_shared_name_asks_for_the_same_queue() -> None:
    with start({"ps": 1}) as servers:
        target = servers["ps:0"].target
        graph, q = shared_queue(capacity=5)
        with tf.Session(target, graph=graph) as session:
            with graph.as_default():
                size = q.size()
            session.run(size)
            for capacity, dtype, text in (
                (9, tf.float32, "has capacity 5 but requested capacity was 9"),
                (5, tf.int32, "has component types float but requested component types were int32"),
            ):
                other, wrong = shared_queue(capacity=capacity, dtype=dtype)
                with other.as_default():
                    size = wrong.size()
                with tf.Session(target, graph=other) as second:
                    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Shared queue 'q' {text}"):
                        second.run(size)


def test_closing_a_session_leaves_others_blocked_on_the_queue() -> None:
    with start({"ps": 1, "worker": 1}) as servers:
        graph, q = shared_queue()
        with graph.as_default(), tf.device(SHARED):
            began = tf.FIFOQueue(10, tf.int32, shapes=[[]], shared_name="began")
            with tf.control_dependencies([began.enqueue(1)]):
                get = q.dequeue()
            put, begun = q.enqueue(4.0), began.dequeue_many(2)
        target = servers["worker:0"].target
        with tf.Session(servers["ps:0"].target, graph=graph) as third, tf.Session(target, graph=graph) as second:
            gone = tf.Session(target, graph=graph)
            waiting, ended = Blocked(second, get), Blocked(gone, get)
            third.run(begun)
            gone.close()
            with pytest.raises(tf.errors.CancelledError):
                ended.result()
            third.run(put)
            assert waiting.result() == 4.0


def test_barriers_of_sixteen_sessions() -> None:
    """Rounds use two queues of permits in turn, so nobody takes one of another round; no wake-up is lost."""
    rounds, count = 20, 16
    with start({"ps": 1, "worker": 2}) as servers:
        graph = tf.Graph()
        with graph.as_default(), tf.device(SHARED):
            arrived = tf.FIFOQueue(-1, tf.int32, shapes=[[]], shared_name="arrived")
            permits = [tf.FIFOQueue(-1, tf.int32, shapes=[[]], shared_name=f"permits{i}") for i in range(2)]
            arrive, leave = arrived.enqueue(1), [q.dequeue() for q in permits]
            with tf.control_dependencies([arrived.dequeue_many(count)]):
                release = [q.enqueue_many([[1] * count]) for q in permits]
            sizes = [q.size() for q in (arrived, *permits)]
        passed: list[int] = []

        def work(index: int) -> None:
            with tf.Session(servers[f"worker:{index % 2}"].target, graph=graph) as session:
                for step in range(rounds):
                    session.run(arrive)
                    session.run(leave[step % 2])
                passed.append(index)

        workers = [threads.start(work, f"member-{i}", i) for i in range(count)]
        with tf.Session(servers["ps:0"].target, graph=graph) as session:
            for step in range(rounds):
                session.run(release[step % 2])
            for worker in workers:
                worker.join(30)
            assert sorted(passed) == list(range(count))
            assert session.run(sizes) == [0, 0, 0]


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.float32, tf.bool, tf.string])
def test_a_batch_that_pads_has_scalars_beside_it(dtype: Any) -> None:
    number = tf.train.range_input_producer(4, num_epochs=1, shuffle=False).dequeue()
    label = tf.as_string(number) if dtype == tf.string else tf.cast(number, dtype)
    batch = tf.train.batch([tf.range(number), label], 2, dynamic_pad=True)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        runners = tf.train.start_queue_runners(session, coordinator)
        got = [session.run(batch) for _ in range(2)]
        coordinator.request_stop()
        coordinator.join(runners)
    assert [padded.tolist() for padded, _ in got] == [[[0], [0]], [[0, 1, 0], [0, 1, 2]]]
    kept = np.concatenate([labels for _, labels in got])
    expected = [b"0", b"1", b"2", b"3"] if dtype == tf.string else np.arange(4).astype(dtype.as_numpy_dtype).tolist()
    assert kept.dtype == dtype.as_numpy_dtype and kept.tolist() == expected
