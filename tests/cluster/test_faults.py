"""What a program sees when tasks die, stop, come late or come again: real processes, real signals."""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dtfzmq as tf
from tests.kit.cluster import Cluster
from tests.kit.waiting import wait_for

Processes = Callable[..., Cluster]


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def on_ps(index: int = 0):
    return tf.device(f"/job:ps/task:{index}")


def on_worker(index: int = 0):
    return tf.device(f"/job:worker/task:{index}")


def elapsed(fn: Callable[[], object]) -> float:
    began = time.monotonic()
    fn()
    return time.monotonic() - began


def blocked_run(sess: tf.Session, fetch: object) -> tuple[threading.Thread, list[Exception]]:
    """Runs `fetch` on a thread, which must fail."""
    seen: list[Exception] = []

    def body() -> None:
        try:
            sess.run(fetch)
        except Exception as error:
            seen.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    return thread, seen


def running_steps(sess: tf.Session, want: int) -> None:
    """Wait until the session's master has `want` steps under way."""
    from dtfzmq.client.connection import Answer
    from dtfzmq.wire import messages

    def count() -> bool:
        answer = Answer()
        with sess._loop.held():
            sess._connection.ask(messages.Status(), answer)
        return sess._loop.wait(answer, 5).report["steps"]["running"] == want

    wait_for(count, 10, f"{want} running steps")


def test_a_ps_that_dies_in_a_step(processes: Processes) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    with on_ps():
        take = tf.FIFOQueue(1, tf.float32, [[]], shared_name="q").dequeue()
        v = tf.Variable(1.0, name="v")
    with on_worker():
        y = take + 1.0
        alone = tf.constant(1.0) + 1.0
        other = tf.constant(3.0) + 1.0
    sess = tf.Session(cluster.target("worker"))
    sess.run(v.initializer)
    assert sess.run(alone) == 2
    thread, seen = blocked_run(sess, y)
    running_steps(sess, 1)
    began = time.monotonic()
    cluster.tasks["ps/0"].kill()
    thread.join(10)
    assert time.monotonic() - began < 2.0
    (error,) = seen
    assert isinstance(error, tf.errors.UnavailableError)
    assert error.message.startswith("Link from /job:worker/replica:0/task:0 to /job:ps/replica:0/task:0")
    # What does not need the ps goes on, also with fetches that are new.
    assert sess.run(alone) == 2 and sess.run(other) == 4

    # What needs it fails at once, and close waits for nobody.
    def fails() -> None:
        with pytest.raises(tf.errors.UnavailableError, match="/job:ps/replica:0/task:0.*127.0.0.1"):
            sess.run(v)

    assert elapsed(fails) < 1.5
    assert elapsed(sess.close) < 1.0


def test_a_restarted_ps(processes: Processes) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    with on_ps():
        v = tf.Variable(5.0, name="v")
    with on_worker():
        y = v + 1.0
        new = v + 2.0
        alone = tf.constant(1.0) + 1.0
    report = tf.report_uninitialized_variables()
    sess = tf.Session(cluster.target("worker"))
    sess.run(v.initializer)
    assert sess.run(y) == 6 and sess.run(alone) == 2
    cluster.tasks["ps/0"].restart()
    cluster.tasks["ps/0"].wait_printed("ready at")

    def restarted(fetch: object) -> bool:
        try:
            sess.run(fetch)
        except tf.errors.UnavailableError:
            return False  # the death itself may be seen first
        except tf.errors.AbortedError as error:
            assert "restarted" in error.message and "/job:ps/replica:0/task:0" in error.message
            return True
        raise AssertionError("a session must not meet the new process as if it were the old one")

    began = time.monotonic()
    wait_for(lambda: restarted(y), 5)
    for _ in range(3):
        assert restarted(y), "it never heals"
    assert restarted(new)
    assert time.monotonic() - began < 4
    assert sess.run(alone) == 2
    assert elapsed(sess.close) < 1
    with tf.Session(cluster.target("worker")) as again:
        assert list(again.run(report)) == [b"v"]
        with pytest.raises(tf.errors.FailedPreconditionError):
            again.run(v)
        again.run(v.initializer)
        assert again.run(y) == 6


def test_a_missing_task_is_named_within_the_limit(processes: Processes) -> None:
    cluster = processes({"ps": 2, "worker": 1})
    cluster.start("worker")
    with on_ps(1):
        v = tf.Variable(1.0, name="v")
    config = tf.ConfigProto(operation_timeout_in_ms=700)
    with tf.Session(cluster.target("worker"), config=config) as sess:

        def fails() -> None:
            with pytest.raises((tf.errors.DeadlineExceededError, tf.errors.UnavailableError)) as caught:
                sess.run(v.initializer)
            assert "/job:ps/replica:0/task:1" in caught.value.message
            assert cluster.address("ps", 1) in caught.value.message

        assert 0.6 < elapsed(fails) < 1.2
        assert sess.run(on_worker_constant()) == 3
        assert elapsed(sess.close) < 1


def on_worker_constant() -> tf.Tensor:
    with on_worker():
        return tf.constant(1.0) + 2.0


def test_only_tasks_of_the_step_are_needed(processes: Processes) -> None:
    cluster = processes({"ps": 1, "worker": 3})
    cluster.start("ps")
    cluster.start("worker", 1)
    with on_ps():
        v = tf.Variable(2.0, name="v")
    with on_worker(1):
        y = v * 2.0
    with on_worker(2):
        z = v * 3.0
    with tf.Session(cluster.target("worker", 1)) as sess:
        sess.run(v.initializer)
        assert sess.run(y) == 4
        with pytest.raises(tf.errors.DeadlineExceededError, match="/job:worker/replica:0/task:2"):
            sess.run(z, options=tf.RunOptions(timeout_in_ms=300))
        assert sess.run(y) == 4


def test_any_start_order(processes: Processes) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    with on_ps():
        v = tf.Variable(2.0, name="v")
    with on_worker():
        y = v * 2.0
    got: list[float] = []

    graph = tf.get_default_graph()

    def client() -> None:
        with tf.Session(cluster.target("worker"), graph=graph) as sess:
            sess.run(v.initializer)
            got.append(sess.run(y))

    thread = threading.Thread(target=client)
    thread.start()
    cluster.start("worker")
    running = cluster.tasks["worker/0"]
    wait_for(lambda: "no connection" in running.output() or "ready at" in running.output(), 10)
    cluster.start("ps")
    thread.join(15)
    assert got == [4.0]


def test_a_master_that_dies(processes: Processes) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    with on_ps():
        v = tf.Variable(5.0, name="v")
        take = tf.FIFOQueue(1, tf.float32, [[]], shared_name="q").dequeue()
    sess = tf.Session(cluster.target("worker"))
    sess.run(v.initializer)
    thread, seen = blocked_run(sess, take)
    running_steps(sess, 1)
    cluster.tasks["worker/0"].kill()
    thread.join(10)
    assert isinstance(seen[0], tf.errors.UnavailableError), seen
    for _ in range(2):
        with pytest.raises(tf.errors.UnavailableError) as gone:
            sess.run(v)
        assert "/job:worker/replica:0/task:0" in gone.value.message and cluster.address("worker") in gone.value.message
    cluster.tasks["worker/0"].restart()
    cluster.tasks["worker/0"].wait_printed("ready at")
    name = f"this master, /job:worker/replica:0/task:0 at {cluster.address('worker')}, has restarted"
    with pytest.raises(tf.errors.AbortedError, match=f"is not found. Possibly, {name}"):
        wait_for(lambda: sess.run(v) is None, 5)
    with pytest.raises(tf.errors.AbortedError, match="is not found"):
        sess.close()
    with tf.Session(cluster.target("worker")) as again:
        assert again.run(v) == 5, "the ps kept its state"
    # The ps cancelled the dead master's step: nothing waits for the queue there.
    with tf.Session(cluster.target("ps")) as direct:
        running_steps(direct, 0)


def test_no_server_at_the_target(processes: Processes) -> None:
    cluster = processes({"worker": 1})
    sess = tf.Session(cluster.target("worker"), config=tf.ConfigProto(operation_timeout_in_ms=500))

    def fails() -> None:
        with pytest.raises((tf.errors.DeadlineExceededError, tf.errors.UnavailableError)) as caught:
            sess.run(tf.constant(1))
        assert cluster.address("worker") in caught.value.message

    assert elapsed(fails) < 1.1
    assert elapsed(sess.close) < 1


def test_a_killed_client_leaves_no_waiter(processes: Processes, tmp_path: Path) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    script = tmp_path / "client.py"
    script.write_text(
        "import sys, dtfzmq as tf\n"
        "with tf.device('/job:ps/task:0'):\n"
        "    q = tf.FIFOQueue(5, tf.int32, [[]], shared_name='q')\n"
        "    take = q.dequeue()\n"
        "sess = tf.Session(sys.argv[1])\n"
        "sess.run(tf.constant(1))\n"
        "print('taking', flush=True)\n"
        "sess.run(take)\n"
    )
    client = cluster.script(script, cluster.target("worker"))
    client.wait_printed("taking")
    with on_ps():
        queue = tf.FIFOQueue(5, tf.int32, [[]], shared_name="q")
        put, size = queue.enqueue(1), queue.size()
    with tf.Session(cluster.target("worker")) as sess:
        running_steps(sess, 1)
        client.kill()
        running_steps(sess, 0)
        sess.run(put)
        assert sess.run(size) == 1, "the dead client's dequeue took nothing"


def test_a_stopped_ps_is_lost_within_the_limit_and_usable_after(processes: Processes) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    with on_ps():
        v = tf.Variable(5.0, name="v")
    with on_worker():
        y = v + 1.0
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(v.initializer)
        assert sess.run(y) == 6
        cluster.tasks["ps/0"].freeze()
        began = time.monotonic()
        with pytest.raises(tf.errors.UnavailableError, match="/job:ps/replica:0/task:0"):
            sess.run(y)
        assert time.monotonic() - began < 12
        cluster.tasks["ps/0"].thaw()

        def again() -> bool:
            try:
                return sess.run(y) == 6
            except tf.errors.UnavailableError:
                return False

        wait_for(again, 8)


def test_a_frozen_ps_and_a_deadline(processes: Processes) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    with on_ps():
        v = tf.Variable(5.0, name="v")
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(v.initializer)
        cluster.tasks["ps/0"].freeze()

        def late() -> None:
            with pytest.raises(tf.errors.DeadlineExceededError, match="/job:ps"):
                sess.run(v, options=tf.RunOptions(timeout_in_ms=300))

        assert elapsed(late) < 1.0
        cluster.tasks["ps/0"].thaw()
        assert sess.run(v) == 5


def test_errors_of_two_parts_name_the_first_and_cancel_the_other(processes: Processes) -> None:
    cluster = processes({"ps": 2, "worker": 1})
    cluster.start_all()
    with on_ps(0):
        take = tf.FIFOQueue(1, tf.float32, [[]], shared_name="never").dequeue()
    with on_ps(1):
        bad = tf.matmul(tf.placeholder(tf.float32, [None, None], name="x"), tf.ones([2, 2]), name="bad")
    with on_worker():
        both = take + tf.reduce_sum(bad)
    with tf.Session(cluster.target("worker")) as sess:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            sess.run(both, {"x:0": [[1.0, 2.0, 3.0]]})
        assert caught.value.message.startswith("From /job:ps/replica:0/task:1:\n")
        assert "{{node bad}}" in caught.value.message and caught.value.op.name == "bad"
        running_steps(sess, 0)
    with tf.Session(cluster.target("ps", 0)) as direct, on_ps(0):
        queue = tf.FIFOQueue(1, tf.float32, [[]], shared_name="never")
        direct.run(queue.enqueue(1.0))
        assert direct.run(queue.size()) == 1


def test_a_blocked_run_ends_on_ctrl_c(processes: Processes, tmp_path: Path) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    script = tmp_path / "client.py"
    script.write_text(
        "import sys, dtfzmq as tf\n"
        "with tf.device('/job:ps/task:0'):\n"
        "    take = tf.FIFOQueue(5, tf.int32, [[]], shared_name='q').dequeue()\n"
        "sess = tf.Session(sys.argv[1])\n"
        "sess.run(tf.constant(1))\n"
        "print('taking', flush=True)\n"
        "try:\n"
        "    sess.run(take)\n"
        "except KeyboardInterrupt:\n"
        "    print('value', sess.run(tf.constant(7)), flush=True)\n"
    )
    client = cluster.script(script, cluster.target("worker"))
    client.wait_printed("taking")
    with tf.Session(cluster.target("worker")) as sess:
        running_steps(sess, 1)
        began = time.monotonic()
        client.send(signal.SIGINT)
        assert client.wait(5) == 0, client.output()
        assert time.monotonic() - began < 2
        assert "value 7" in client.output()
        running_steps(sess, 0)


def test_ctrl_c_amid_a_computation(processes: Processes, tmp_path: Path) -> None:
    cluster = processes({"ps": 1})
    script = tmp_path / "client.py"
    script.write_text(
        "import threading, dtfzmq as tf\n"
        "from tests.kit.waiting import wait_for\n"
        "x = tf.ones([1500, 1500]) * 1e-4\n"
        "y = x\n"
        "for _ in range(400):\n"
        "    y = tf.matmul(y, x)\n"
        "sess = tf.Session()\n"
        "threading.Timer(0.1, print, ['computing'], {'flush': True}).start()\n"
        "try:\n"
        "    sess.run(y)\n"
        "except KeyboardInterrupt:\n"
        "    worker = sess._connection._handle.__self__.worker\n"
        "    wait_for(lambda: not worker.steps, 3)\n"
        "    print('value', sess.run(tf.constant(7)), flush=True)\n"
        "    sess.close()\n"
    )
    client = cluster.script(script)
    client.wait_printed("computing")
    began = time.monotonic()
    client.send(signal.SIGINT)
    assert client.wait(10) == 0, client.output()
    assert time.monotonic() - began < 3
    assert "value 7" in client.output()


def test_a_thousand_timed_out_runs_leave_nothing(processes: Processes) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    with on_ps():
        queue = tf.FIFOQueue(5, tf.float32, [[]], shared_name="q")
        take = queue.dequeue()
        put = queue.enqueue(2.0)
    with on_worker():
        y = take + 1.0
    with tf.Session(cluster.target("worker")) as sess:
        options = tf.RunOptions(timeout_in_ms=1)
        late = 0

        def many() -> None:
            nonlocal late
            for _ in range(125):
                try:
                    sess.run(y, options=options)
                except tf.errors.DeadlineExceededError:
                    late += 1

        sess.run(put)
        assert sess.run(y) == 3
        threads = [threading.Thread(target=many) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert late == 1000
        for job in ("worker", "ps"):
            with tf.Session(cluster.target(job)) as other:
                wait_for(functools.partial(empty, other), 10, f"empty tables of the {job}")
        sess.run(put)
        assert sess.run(y) == 3


def empty(sess: tf.Session) -> bool:
    return tables(sess) == (0, 0, 0, 0)


def tables(sess: tf.Session) -> tuple[int, int, int, int]:
    from dtfzmq.client.connection import Answer
    from dtfzmq.wire import messages

    answer = Answer()
    with sess._loop.held():
        sess._connection.ask(messages.Status(), answer)
    report = sess._loop.wait(answer, 5).report
    meeting = report["rendezvous"]
    return report["steps"]["running"], len(report["running"]), meeting["steps"], meeting["parked"]
