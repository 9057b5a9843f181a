"""Session.run and its kin on each kind of master: TF1's results, TF1's errors."""

from __future__ import annotations

import collections
import gc
import logging
import threading
import time
import uuid
from typing import Any, cast

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.client.connection import Answer
from dtfzmq.wire import messages
from tests.kit.waiting import wait_for


def unique(stem):
    return f"{stem}_{uuid.uuid4().hex[:8]}"


def steps_under_way(sess):
    """Steps of the session that run at its master."""
    answer = Answer()
    with sess._loop.held():
        sess._connection.ask(messages.Status(), answer)
    report = sess._loop.wait(answer, 10).report
    return sum(found["running"] for found in report["sessions"] if found["handle"] == sess._handle)


def test_values_come_back_as_tf1_gives_them(session):
    x = tf.placeholder(tf.float32, [None])
    sess = session()
    y = x * 2.0
    got = sess.run({"a": [y, x.op.name + ":0"], "b": (tf.constant(3), tf.constant("text"), y.op)}, {x: [1, 2]})
    np.testing.assert_array_equal(got["a"][0], [2, 4])
    np.testing.assert_array_equal(got["a"][1], [1, 2])
    three, text, nothing = got["b"]
    assert type(three) is np.int32 and three == 3
    assert text == b"text" and nothing is None
    assert got["a"][0].flags.writeable and got["a"][0].dtype == np.float32


def test_fetched_constants_and_variables_are_the_callers_own(session):
    sess = session()
    c = tf.constant([1.0, 2.0])
    v = tf.Variable([1.0, 2.0], name=unique("own"))
    sess.run(v.initializer)
    for tensor in (c, v):
        first = sess.run(tensor)
        first[:] = 9
        np.testing.assert_array_equal(sess.run(tensor), [1, 2])
    before = sess.run(v)
    sess.run(v.assign_add([1.0, 1.0]))
    np.testing.assert_array_equal(before, [1, 2])


def test_a_fed_array_may_be_overwritten_after_run(session):
    sess = session()
    x = tf.placeholder(tf.float32, [100_000])
    v = tf.Variable(tf.zeros([100_000]), name=unique("fed"))
    queue = tf.FIFOQueue(5, tf.float32, [[100_000]], shared_name=unique("fedq"))
    put, take, assign = queue.enqueue(x), queue.dequeue(), v.assign(x)
    value = np.ones(100_000, np.float32)
    sess.run(v.initializer)
    sess.run([assign.op, put], {x: value})
    value[:] = 7
    stored, queued = sess.run([v, take])
    assert stored.min() == stored.max() == 1 and queued.min() == queued.max() == 1


def test_feeding_replaces_one_output_for_one_step(session):
    sess = session()
    v = tf.Variable(3.0, name=unique("v"))
    a = v + 1.0
    b = a * 10.0
    sess.run(v.initializer)
    assert sess.run(b) == 40
    assert sess.run(b, {a: 2.0}) == 20, "an intermediate tensor"
    assert sess.run([b, a], {a: 5.0}) == [50, 5], "the fed tensor is answered from the feed"
    assert sess.run(b, {v: 5.0}) == 60 and sess.run(v) == 3, "a variable's value for this step only"
    assert sess.run([b, b, [b]]) == [40, 40, [40]]


def test_what_is_all_fed_runs_nothing(session):
    sess = session()
    x = tf.placeholder(tf.float32, [])
    got = sess.run(x, {x: 3.0})
    assert type(got) is np.ndarray and got.shape == () and got == 3
    assert sess.run([]) == []


def test_unfed_placeholder_names_itself(session):
    sess = session()
    x = tf.placeholder(tf.float32, [], name="lonely")
    y = x + 1.0
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="You must feed a value for placeholder tensor 'lonely'"
    ) as e:
        sess.run(y)
    assert e.value.op is x.op and e.value.node_def.name == "lonely" and e.value.error_code == 3
    assert sess.run(y, {x: 1.0}) == 2, "the session stays usable"


def test_uninitialized_variable(session):
    sess = session()
    v = tf.Variable(1.0, name=unique("cold"))
    with pytest.raises(tf.errors.FailedPreconditionError, match="Attempting to use uninitialized value") as caught:
        sess.run(v)
    assert caught.value.op is v.op, "not what takes the value out of its part"


def test_errors_before_anything_is_sent(session):
    sess = session()
    with pytest.raises(RuntimeError, match="The Session graph is empty"):
        sess.run("x:0")
    x = tf.placeholder(tf.float32, [2], name="x")
    with pytest.raises(TypeError, match="Fetch argument None has invalid type"):
        sess.run(None)
    with pytest.raises(ValueError, match="Cannot feed value of shape"):
        sess.run(x + 1.0, {x: [1.0, 2.0, 3.0]})
    with pytest.raises(TypeError, match="feed_dict must be a dictionary"):
        sess.run(x, [1.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="fed more than once"):
        sess.run(x + 1.0, {x: [1.0, 2.0], "x:0": [1.0, 2.0]})


def test_graph_may_grow_between_runs(session):
    sess = session()
    total = tf.constant(0)
    for i in range(5):
        total = total + i
        assert sess.run(total) == sum(range(i + 1))


def test_one_bad_node_harms_nobody_else(session):
    sess = session()
    good = tf.constant(1.0) + 1.0
    assert sess.run(good) == 2
    with tf.device("/job:nope/task:0"):
        bad = tf.constant(2.0) + 1.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="was explicitly assigned to /job:nope"):
        sess.run(bad)
    assert sess.run(good) == 2
    assert sess.run(good * 3.0) == 6


def test_order_and_repeats_of_fetches_are_one_signature(session):
    sess = session()
    a, b = tf.constant(1.0) + 0.0, tf.constant(2.0) + 0.0
    assert sess.run([a, b]) == [1, 2]
    assert sess.run([b, a]) == [2, 1]
    assert sess.run({"x": b, "y": (a, a, b)}) == {"x": 2, "y": (1, 1, 2)}


def test_make_callable(session):
    sess = session()
    x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    call = sess.make_callable([x + y, x - y], [y, x])
    assert call(1.0, 5.0) == [6, 4]
    with pytest.raises(TypeError, match="takes 2 values"):
        call(1.0)
    assert sess.make_callable((x + 1.0).op, [x])(1.0) is None
    metadata = tf.RunMetadata()
    traced = sess.make_callable(x + y, [x, y], accept_options=True)
    assert traced(1.0, 2.0, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata) == 3
    assert metadata.step_stats.dev_stats
    with pytest.raises(TypeError, match="must be a list or tuple"):
        sess.make_callable(x, {x: 1})


def test_close_is_final_and_idempotent(session):
    sess = session()
    c = tf.constant(1)
    call = sess.make_callable(c)
    assert sess.run(c) == 1
    sess.close()
    sess.close()
    for attempt in (lambda: sess.run(c), call, sess.list_devices):
        with pytest.raises(RuntimeError, match="Attempted to use a closed Session"):
            attempt()


def test_default_sessions(session):
    sess = session()
    c = tf.constant(4)
    with pytest.raises(ValueError, match="No default session"):
        c.eval()
    with sess.as_default():
        assert c.eval() == 4 and tf.get_default_session() is sess
    assert tf.get_default_session() is None
    assert sess.run(c) == 4, "as_default does not close"
    with sess:
        assert c.eval() == 4
        seen = []
        thread = threading.Thread(target=lambda: seen.append(tf.get_default_session()))
        thread.start()
        thread.join()
        assert seen == [None], "the stack is per thread"
    with pytest.raises(RuntimeError, match="closed Session"):
        sess.run(c)


def test_interactive_session(target):
    with tf.Graph().as_default():
        c = tf.constant(4)
        sess = tf.InteractiveSession(target)
        assert c.eval() == 4
        sess.close()
        assert tf.get_default_session() is None


def test_dropped_sessions_close_themselves(target):
    with tf.Graph().as_default():
        c = tf.constant(4)
        sess = tf.Session(target)
        assert sess.run(c) == 4
        del sess
        gc.collect()


def test_arguments_of_the_constructor():
    with pytest.raises(TypeError, match="graph must be a tf.Graph"):
        tf.Session(graph=cast(Any, 3))
    with pytest.raises(TypeError, match="target must be a string"):
        tf.Session(cast(Any, 3))
    with pytest.raises(TypeError, match="config must be a tf.ConfigProto"):
        tf.Session(config=cast(Any, {"a": 1}))
    with pytest.raises(tf.errors.NotFoundError, match="No session factory registered"):
        tf.Session("foo://bar")
    with pytest.raises(tf.errors.InvalidArgumentError, match='Could not interpret "localhost" as a host-port pair'):
        tf.Session("grpc://localhost")


def test_grpc_targets_are_taken_with_one_warning(remote, caplog, monkeypatch):
    monkeypatch.setattr("dtfzmq.cluster.addresses._warned", [])
    with tf.Graph().as_default():
        c = tf.constant(4)
        for _ in range(2):
            with tf.Session("grpc://" + remote.address("worker")) as sess:
                assert sess.run(c) == 4
    assert len([r for r in caplog.records if "grpc://" in r.message]) == 1


def test_list_devices(session, target):
    devices = session().list_devices()
    assert devices[0].device_type == "CPU" and devices[0].incarnation != 0
    if "localhost" not in target and target:
        assert [d.name for d in devices] == [
            "/job:worker/replica:0/task:0/device:CPU:0",
            "/job:ps/replica:0/task:0/device:CPU:0",
        ]
    assert "_DeviceAttributes(/job:" in repr(devices[0])


def test_deadline_of_a_run(session):
    sess = session()
    queue = tf.FIFOQueue(2, tf.int32, [[]], shared_name=unique("slow"))
    take, put = queue.dequeue(), queue.enqueue(5)
    began = time.monotonic()
    with pytest.raises(tf.errors.DeadlineExceededError, match="Operation timed out"):
        sess.run(take, options=tf.RunOptions(timeout_in_ms=100))
    assert 0.1 <= time.monotonic() - began < 1.0
    sess.run(put)
    assert sess.run(take) == 5, "the late dequeue stole nothing"


def test_deadline_of_a_session(session):
    sess = session(config=tf.ConfigProto(operation_timeout_in_ms=100))
    take = tf.FIFOQueue(2, tf.int32, [[]], shared_name=unique("slow")).dequeue()
    with pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(take)


def test_close_cancels_running_steps(session):
    sess = session()
    take = tf.FIFOQueue(2, tf.int32, [[]], shared_name=unique("never")).dequeue()
    seen = []

    def blocked():
        with pytest.raises(tf.errors.CancelledError) as caught:
            sess.run(take)
        seen.append(str(caught.value))

    threads = [threading.Thread(target=blocked) for _ in range(2)]
    sess.run(tf.constant(1))
    for thread in threads:
        thread.start()
    wait_for(lambda: steps_under_way(sess) == 2, what="both runs under way")
    began = time.monotonic()
    sess.close()
    for thread in threads:
        thread.join(5)
    assert time.monotonic() - began < 1.0
    assert len(seen) == 2
    assert all("Session::Close()" in text or "ancelled" in text for text in seen), seen


def test_threads_run_side_by_side(session):
    sess = session()
    x = tf.placeholder(tf.int32, [])
    y = x * 2
    queue = tf.FIFOQueue(10, tf.int32, [[]], shared_name=unique("many"))
    put, take = queue.enqueue(x), queue.dequeue()
    wrong: list[object] = []

    def work(mine):
        for i in range(50):
            if sess.run(y, {x: mine * 1000 + i}) != 2 * (mine * 1000 + i):
                wrong.append((mine, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    waiting = threading.Thread(target=lambda: wrong.append(None) if sess.run(take) != 77 else None)
    waiting.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    sess.run(put, {x: 77})
    waiting.join(10)
    assert not waiting.is_alive() and wrong == []


def test_full_trace(session):
    sess = session()
    x = tf.placeholder(tf.float32, [])
    y = tf.identity(x * 2.0, name="twice")
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
    before = time.time() * 1e6
    assert sess.run(y, {x: 1.0}, options=options, run_metadata=metadata) == 2
    stats = [s for d in metadata.step_stats.dev_stats for s in d.node_stats]
    named = {s.node_name: s for s in stats}
    assert "twice" in named and named["twice"].timeline_label == "twice = Identity"
    assert before - 1e6 <= named["twice"].all_start_micros <= time.time() * 1e6 + 1e6
    assert all(s.all_end_rel_micros >= 1 for s in stats)
    assert any(n.name == "twice" and n.device for g in metadata.partition_graphs for n in g.node)


def test_a_transfer_shows_in_the_trace(remote):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        with tf.device("/job:ps/task:0"):
            a = tf.ones([1000]) * x
        with tf.device("/job:worker/task:0"):
            b = tf.reduce_sum(a)
        with tf.Session(remote.target("worker")) as sess:
            metadata = tf.RunMetadata()
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            assert sess.run(b, {x: 2.0}, options=options, run_metadata=metadata) == 2000
    assert {d.device.split("/device")[0] for d in metadata.step_stats.dev_stats} == {
        "/job:ps/replica:0/task:0",
        "/job:worker/replica:0/task:0",
    }
    (moved,) = [s for d in metadata.step_stats.dev_stats for s in d.node_stats if s.node_name == "RecvTensor"]
    assert moved.timeline_label.startswith("[4000B]") and " from /job:ps" in moved.timeline_label
    assert metadata.transferred_bytes == {"/job:worker/replica:0/task:0": 4000}


def test_indexed_slices_are_fetched_and_fed(session):
    sess = session()
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([4, 6]))
    got = sess.run(slices)
    np.testing.assert_array_equal(got.values, [[1], [2]])
    np.testing.assert_array_equal(got.indices, [4, 6])
    total = tf.reduce_sum(slices.values)
    assert sess.run(total, {slices: ([[3.0], [4.0]], [0, 1])}) == 7


def test_partial_run(session):
    sess = session()
    a, b, c = (tf.placeholder(tf.float32, [], name=n) for n in "abc")
    r1 = a + b
    r2 = r1 * c
    handle = sess.partial_run_setup([r1, r2], [a, b, c])
    assert sess.partial_run(handle, r1, {a: 1.0, b: 2.0}) == 3
    assert sess.partial_run(handle, r2, {c: 10.0}) == 30


def test_partial_run_errors(session):
    sess = session()
    a, b, c = (tf.placeholder(tf.float32, [], name=n) for n in "abc")
    r1, r2 = a + b, (a + b) * c
    handle = sess.partial_run_setup([r1, r2], [a, b, c])
    for fetches, feeds, text in [
        (r1, {r2: 1.0}, "was not specified in partial_run_setup"),
        ("c:0", {}, "was not specified in partial_run_setup"),
        (r2, {a: 1.0, b: 1.0}, "can't be computed from the feeds that have been fed so far"),
    ]:
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            sess.partial_run(handle, fetches, feeds)
    assert sess.partial_run(handle, r1, {a: 1.0, b: 1.0}) == 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="The feed a:0 has already been fed"):
        sess.partial_run(handle, r2, {a: 1.0, c: 1.0})
    with pytest.raises(tf.errors.InvalidArgumentError, match="has already been fetched"):
        sess.partial_run(handle, r1, {c: 1.0})
    assert sess.partial_run(handle, r2, {c: 3.0}) == 6
    with pytest.raises(tf.errors.InvalidArgumentError, match="Must run PartialRunSetup"):
        sess.partial_run(handle, r1, {})


def test_reset_ends_every_session_of_the_master(target):
    if not target:
        return
    name = unique("reset")
    with tf.Graph().as_default():
        v = tf.Variable(1.0, name=name)
        old = tf.Session(target)
        old.run(v.initializer)
        tf.Session.reset(target)
        with pytest.raises(tf.errors.AbortedError, match="is not found"):
            old.run(v)
        with pytest.raises(tf.errors.AbortedError, match="is not found"):
            old.close()
        with tf.Session(target) as new:
            with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
                new.run(v)


def test_isolated_state(target):
    name = unique("isolated")
    with tf.Graph().as_default():
        v = tf.Variable(1.0, name=name)
        with (
            tf.Session(target) as shared,
            tf.Session(target, config=tf.ConfigProto(isolate_session_state=True)) as alone,
        ):
            shared.run(v.initializer)
            with pytest.raises(tf.errors.FailedPreconditionError):
                alone.run(v)
            alone.run(v.assign(5.0).op)
            assert (alone.run(v), shared.run(v)) == (5, 1)


def test_state_is_shared_by_name(target):
    if not target:
        return
    name = unique("shared")
    with tf.Graph().as_default():
        v = tf.Variable(1.0, name=name)
        add = v.assign_add(1.0)
        with tf.Session(target) as one:
            one.run(v.initializer)
            one.run(add.op)
        with tf.Session(target) as two:
            assert two.run(v) == 2, "variables outlive sessions"


def test_private_sessions_share_nothing():
    with tf.Graph().as_default():
        v = tf.Variable(1.0, name="mine")
        with tf.Session() as one, tf.Session() as two:
            one.run(v.initializer)
            with pytest.raises(tf.errors.FailedPreconditionError):
                two.run(v)


def test_first_runs_at_the_same_time(session):
    sess = session()
    y = tf.constant(2.0) * 3.0
    got: collections.deque[float] = collections.deque()
    start = threading.Barrier(6)

    def first():
        start.wait()
        got.append(sess.run(y))

    threads = [threading.Thread(target=first) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert list(got) == [6] * 6


def test_log_device_placement(session, target, caplog):
    if target and "localhost" not in target:
        return  # another process logs it
    sess = session(config=tf.ConfigProto(log_device_placement=True))
    with caplog.at_level(logging.INFO, "dtfzmq"):
        sess.run(tf.constant(1.0, name="logged") + 1.0)
    assert any("logged" in record.getMessage() for record in caplog.records)


def test_a_sparse_feed_without_its_shape_is_another_signature(session):
    sess = session()
    sparse, x = tf.sparse_placeholder(tf.float32), tf.placeholder(tf.float32)
    whole, half = ([[0, 0]], [1.0], [2, 2]), ([[0, 0]], [1.0])
    values, shape, doubled = tf.identity(sparse.values), tf.identity(sparse.dense_shape), x * 2.0
    for given in (whole, half, whole):
        got, ten = sess.run([values, doubled], {sparse: given, x: [5.0, 5.0]})
        assert got.tolist() == [1.0] and ten.tolist() == [10.0, 10.0]
    assert sess.run(shape, {sparse: whole, x: [7.0, 7.0]}).tolist() == [2, 2]
    said = "You must feed a value for placeholder tensor"
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        sess.run(shape, {sparse: half, x: [7.0, 7.0]})
    call = sess.make_callable([shape, doubled], [sparse, x])
    assert call(whole, 1.0)[1] == 2.0
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        call(half, [7.0, 7.0])
