"""Monitored sessions: made ready, hooked, stopped, saved, and made anew."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf


@pytest.fixture(autouse=True)
def in_own_graph_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default():
        yield
    tf.summary.FileWriterCache.clear()


def counting() -> Any:
    """An op that adds one to the global step."""
    return tf.assign_add(tf.train.get_or_create_global_step(), 1)


class Noting(tf.train.SessionRunHook):
    """Notes what is called."""

    def __init__(self, fetch: Any = None, feed: Any = None) -> None:
        self.calls: list[str] = []
        self.fetch, self.feed = fetch, feed
        self.results: Any = None

    def begin(self) -> None:
        self.calls.append("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        assert session.graph.finalized and isinstance(coord, tf.train.Coordinator)
        self.coord = coord
        self.calls.append("created")

    def before_run(self, run_context: Any) -> Any:
        self.calls.append("before")
        return tf.train.SessionRunArgs(self.fetch, self.feed)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.calls.append("after")
        self.results = run_values.results

    def end(self, session: Any) -> None:
        self.calls.append(f"end at {session.run(tf.train.get_global_step())}")


def test_a_loop_with_hooks_that_stops_at_a_step() -> None:
    x = tf.placeholder(tf.float32, [])
    step, y = counting(), x * 2.0
    hook = Noting({"y": y}, {x: 3.0})
    with tf.train.MonitoredTrainingSession(hooks=[hook, tf.train.StopAtStepHook(last_step=3)]) as sess:
        assert sess.graph is tf.get_default_graph() and sess.graph.finalized
        steps = 0
        while not sess.should_stop():
            sess.run(step)
            steps += 1
        assert steps == 3 and hook.results == {"y": 6.0}
        with pytest.raises(RuntimeError, match="Run called even after should_stop requested"):
            sess.run(step)
    assert hook.calls == ["begin", "created", *["before", "after"] * 3, "end at 3"]
    assert not tf.get_default_graph().finalized and sess.should_stop()
    with pytest.raises(RuntimeError, match="This session is closed"):
        sess.run(step)
    with pytest.raises(RuntimeError, match="Session is already closed"):
        sess.close()


def test_feeds_of_two_are_refused() -> None:
    x = tf.placeholder(tf.float32, [])
    y = x + 1.0
    counting()
    with tf.train.MonitoredSession(hooks=[tf.train.FeedFnHook(lambda: {x: 2.0})]) as sess:
        assert sess.run(y) == 3
        with pytest.raises(RuntimeError, match="Same tensor is fed by a SessionRunHook and user"):
            sess.run(y, {x: 1.0})
    with pytest.raises(RuntimeError, match="Same tensor is fed by two hooks"):
        with tf.train.MonitoredSession(hooks=[Noting(None, {x: 1.0}), Noting(None, {x: 1.0})]) as sess:
            sess.run(y)


def test_the_end_of_input_ends_a_block_quietly_and_other_errors_do_not() -> None:
    counting()
    take = tf.FIFOQueue(1, tf.int32).dequeue()
    for error in (tf.errors.OutOfRangeError(None, None, "over"), StopIteration()):
        hook = Noting()
        with tf.train.MonitoredSession(hooks=[hook]):
            raise error
        assert hook.calls[-1] == "end at 0"
    hook = Noting()
    with pytest.raises(ZeroDivisionError):
        with tf.train.MonitoredSession(hooks=[hook]):
            raise ZeroDivisionError
    assert hook.calls == ["begin", "created"]
    with pytest.raises(tf.errors.DeadlineExceededError):
        with tf.train.MonitoredSession() as sess:
            sess.run(take, options=tf.RunOptions(timeout_in_ms=50))


def test_what_makes_a_session_ready() -> None:
    v = tf.get_variable("v", initializer=1.0)
    local = tf.get_variable("local", initializer=5.0, collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False)
    scaffold = tf.train.Scaffold(
        init_op=v.assign(7.0), local_init_op=[local.initializer], init_fn=lambda scaffold, sess: called.append(scaffold)
    )
    called: list[Any] = []
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as sess:
        assert sess.run([v, local]) == [7.0, 5.0]
    assert called == [scaffold]
    assert scaffold.saver is not None and tf.get_collection(tf.GraphKeys.SAVERS) == [scaffold.saver]
    other = tf.get_variable("other", initializer=1.0)
    ready = tf.report_uninitialized_variables([other])
    for init_op, what in ((tf.no_op(), " for local_init.*: v$"), (v.initializer, ".*: other$")):
        again = tf.train.Scaffold(init_op, ready_op=ready, copy_from_scaffold=scaffold)
        with pytest.raises(RuntimeError, match=f"did not make model ready{what}"):
            tf.train.MonitoredTrainingSession(scaffold=again)
        tf.get_default_graph()._unsafe_unfinalize()
    with pytest.raises(ValueError, match="must also pass a local_init_op"):
        tf.train.SessionManager(ready_for_local_init_op=tf.no_op())


def test_a_chief_goes_on_from_its_checkpoint() -> None:
    step = counting()
    for begin in (0, 3, 6):
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir="ckpt", hooks=[tf.train.StopAtStepHook(num_steps=3)], save_checkpoint_steps=2
        ) as sess:
            assert sess.run(tf.train.get_global_step()) == begin
            while not sess.should_stop():
                sess.run(step)
        assert tf.train.latest_checkpoint("ckpt") == f"ckpt/model.ckpt-{begin + 3}"
    state = tf.train.get_checkpoint_state("ckpt")
    assert state is not None
    kept = [path.rpartition("-")[2] for path in state.all_model_checkpoint_paths]
    assert kept == ["3", "5", "6", "8", "9"], "a program that begins again takes over what the last one kept"


def test_summaries_and_steps_a_second_are_written() -> None:
    step = counting()
    tf.summary.scalar("twice", tf.cast(step, tf.float32) * 2.0)
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir="ckpt", save_summaries_steps=3, log_step_count_steps=2, hooks=[tf.train.StopAtStepHook(8)]
    ) as sess:
        while not sess.should_stop():
            sess.run(step)
    tf.summary.FileWriterCache.clear()
    (path,) = [os.path.join("ckpt", name) for name in os.listdir("ckpt") if "tfevents" in name]
    events = list(tf.train.summary_iterator(path))
    values = [(e.step, v.tag, v.simple_value) for e in events for v in e.summary.value]
    assert [(s, value) for s, tag, value in values if tag == "twice"] == [(1, 2.0), (4, 8.0), (7, 14.0)]
    assert [s for s, tag, value in values if tag == "global_step/sec" and value > 0] == [3, 5, 7]
    told = [(e.step, e.session_log.status) for e in events if e.HasField("session_log")]
    assert (1, tf.SessionLog.START) in told and (0, tf.SessionLog.CHECKPOINT) in told


class Listener(tf.train.CheckpointSaverListener):
    """Notes what it hears; wants a stop at `stop_at`."""

    def __init__(self, stop_at: int) -> None:
        self.heard: list[tuple[str, int]] = []
        self.stop_at = stop_at

    def begin(self) -> None:
        self.heard.append(("begin", -1))

    def before_save(self, session: Any, global_step_value: int) -> None:
        self.heard.append(("before", global_step_value))

    def after_save(self, session: Any, global_step_value: int) -> bool:
        self.heard.append(("after", global_step_value))
        return global_step_value >= self.stop_at

    def end(self, session: Any, global_step_value: int) -> None:
        self.heard.append(("end", global_step_value))


def test_listeners_of_checkpoints() -> None:
    step, listener = counting(), Listener(4)
    saver = tf.train.Saver()
    hook = tf.train.CheckpointSaverHook("ckpt", save_steps=2, saver=saver, listeners=[listener])
    with tf.train.SingularMonitoredSession(hooks=[hook]) as sess:
        while not sess.should_stop():
            sess.run(step)
    saves = [(what, n) for n in (0, 2, 4) for what in ("before", "after")]
    assert listener.heard == [("begin", -1), *saves, ("end", 4)]
    assert len(saver.last_checkpoints) == 3
    with pytest.raises(ValueError, match="both saver and scaffold"):
        tf.train.CheckpointSaverHook("ckpt", save_steps=1, saver=saver, scaffold=tf.train.Scaffold())
    with pytest.raises(ValueError, match="Either every_secs or every_steps"):
        tf.train.CheckpointSaverHook("ckpt")


def test_hooks_that_tell(caplog: pytest.LogCaptureFixture) -> None:
    step = counting()
    loss = tf.identity(tf.cast(step, tf.float32) / 2.0, name="loss")
    final = tf.train.FinalOpsHook(step)
    hooks = [
        tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=2),
        tf.train.LoggingTensorHook(["loss:0"], at_end=True, formatter=lambda values: f"at the end {values}"),
        final,
    ]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
        for _ in range(4):
            sess.run(step)
    text = caplog.text
    assert "loss = 0.5" in text and "loss = 1.5 (" in text and "loss = 1.0" not in text
    assert "at the end {'loss:0':" in text and final.final_ops_values >= 5
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "exactly one of"),
        ({"every_n_iter": 0}, "invalid every_n_iter=0"),
        ({"every_n_iter": 1, "every_n_secs": 1}, "exactly one"),
    ]
    for more, error in wrong:
        with pytest.raises(ValueError, match=error):
            tf.train.LoggingTensorHook([loss], **more)


def test_a_loss_that_is_no_number() -> None:
    x = tf.placeholder(tf.float32, [])
    loss = tf.log(x)
    counting()
    with pytest.raises(tf.train.NanLossDuringTrainingError, match="NaN loss during training"):
        with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss)]) as sess:
            sess.run(loss, {x: 1.0})
            sess.run(loss, {x: -1.0})
    with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(loss, fail_on_nan_loss=False)]) as sess:
        assert np.isnan(sess.run(loss, {x: -1.0})) and sess.should_stop()


def test_hooks_need_a_global_step() -> None:
    tf.get_variable("v", initializer=1.0)
    for hook in (tf.train.StopAtStepHook(1), tf.train.StepCounterHook(), tf.train.GlobalStepWaiterHook(1)):
        with pytest.raises(RuntimeError, match=f"Global step should be created to use {type(hook).__name__}"):
            tf.train.MonitoredSession(hooks=[hook])
    for arguments in ({}, {"num_steps": 1, "last_step": 1}):
        with pytest.raises(ValueError, match="ne of num_steps or last_step"):
            tf.train.StopAtStepHook(**arguments)


def test_a_timer() -> None:
    timer = tf.train.SecondOrStepTimer(every_steps=3)
    assert timer.should_trigger_for_step(5) and timer.update_last_triggered_step(5) == (None, None)
    assert [step for step in range(5, 10) if timer.should_trigger_for_step(step)] == [8, 9]
    seconds, steps = timer.update_last_triggered_step(9)
    assert seconds is not None and seconds >= 0 and steps == 4 and timer.last_triggered_step() == 9
    slow = tf.train.SecondOrStepTimer(every_secs=1000)
    slow.update_last_triggered_step(1)
    assert not slow.should_trigger_for_step(2)
    quick = tf.train.SecondOrStepTimer(every_secs=0)
    quick.update_last_triggered_step(1)
    assert quick.should_trigger_for_step(2) and not quick.should_trigger_for_step(1)


def test_functions_of_a_step() -> None:
    step = counting()
    hook = Noting()
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        assert sess.run_step_fn(lambda step_context: step_context.session.run(step)) == 1
        assert "before" not in hook.calls
        assert sess.run_step_fn(lambda step_context: step_context.run_with_hooks(step)) == 2
        assert hook.calls[-2:] == ["before", "after"]
        assert sess.run_step_fn(lambda step_context: step_context.request_stop()) is None and sess.should_stop()
        with pytest.raises(ValueError, match="`step_fn` may either have one `step_context` argument"):
            sess.run_step_fn(lambda other: None)


def test_errors_of_queue_runners_reach_the_loop() -> None:
    counting()
    queue = tf.FIFOQueue(2, tf.float32, [[]])
    x = tf.placeholder_with_default(-1.0, [])
    checked = tf.check_numerics(tf.log(x), "no number")
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(checked)]))
    take = queue.dequeue()
    with pytest.raises(tf.errors.InvalidArgumentError, match="no number"):
        with tf.train.MonitoredSession() as sess:
            sess.run(take)


def test_who_waits_for_a_chief_begins_soon_after_it(caplog: pytest.LogCaptureFixture) -> None:
    server = tf.train.Server.create_local_server()
    try:
        step = counting()
        v = tf.get_variable("v", initializer=3.0)
        with pytest.raises(tf.errors.DeadlineExceededError, match="Session was not ready after waiting 0.2 secs"):
            tf.train.MonitoredTrainingSession(server.target, is_chief=False, max_wait_secs=0.2)
        assert "Waiting for model to be ready: Variables not initialized" in caplog.text
        graph = tf.get_default_graph()
        graph._unsafe_unfinalize()
        with tf.Session(server.target) as chief:
            chief.run(tf.global_variables_initializer())
            with tf.train.MonitoredTrainingSession(server.target, is_chief=False) as sess:
                assert sess.run([v, step]) == [3.0, 1]
    finally:
        server.stop()


def test_a_lost_session_is_made_anew_and_the_run_done_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = tf.train.Server.create_local_server()
    try:
        step, hook = counting(), Noting()
        with tf.train.MonitoredTrainingSession(server.target, hooks=[hook], checkpoint_dir="ckpt") as sess:
            assert sess.run(step) == 1
            before = sess._tf_sess()
            tf.Session.reset(server.target)
            assert sess.run(step) == 1, "from the checkpoint that was written at the start"
            assert sess._tf_sess() is not before
        assert hook.calls.count("created") == 2 and hook.calls.count("begin") == 1
        assert "The session is closed and made anew" in caplog.text
        with pytest.raises(tf.errors.AbortedError):
            with tf.train.SingularMonitoredSession(master=server.target) as single:
                single.run(step)
                tf.Session.reset(server.target)
                single.run(step)
        assert single.raw_session() is None
    finally:
        server.stop()


def test_a_thread_that_met_a_lost_task_does_not_end_the_loop() -> None:
    step, hook = counting(), Noting()
    lost = tf.errors.UnavailableError(None, None, "a ps is gone")
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        assert sess.run(step) == 1
        hook.coord.request_stop(lost)
        assert not sess.should_stop()
        assert sess.run(step) == 1 and hook.calls.count("created") == 2
    with pytest.raises(ValueError, match="a thread's own"):
        with tf.train.MonitoredSession(hooks=[hook]) as sess:
            hook.coord.request_stop(ValueError("a thread's own"))
            assert sess.should_stop()
    with pytest.raises(tf.errors.UnavailableError, match="a ps is gone"):
        with tf.train.SingularMonitoredSession(hooks=[hook]) as single:
            hook.coord.request_stop(lost)
            single.should_stop()


def test_a_task_that_is_away_is_waited_for_like_the_chief() -> None:
    server = tf.train.Server.create_local_server()
    try:
        step, found = counting(), list[Any]()
        initialize = tf.global_variables_initializer()
        manager = tf.train.SessionManager(
            ready_op=tf.report_uninitialized_variables(), graph=tf.get_default_graph(), recovery_wait_secs=0.1
        )
        looked = threading.Event()
        ready = manager._ready

        def look(sess: Any) -> Any:
            done = ready(sess)
            looked.set()
            return done

        manager._ready = look  # type: ignore[method-assign]  # to know when
        worker = threading.Thread(target=lambda: found.append(manager.wait_for_session(server.target)))
        worker.start()
        assert looked.wait(10)
        tf.Session.reset(server.target)
        looked.clear()
        assert looked.wait(10), "in a session made anew"
        with tf.Session(server.target) as chief:
            chief.run(initialize)
            worker.join(10)
            (sess,) = found
            assert sess.run(step) == 1
            sess.close()
    finally:
        server.stop()


def test_a_checkpoint_that_does_not_come() -> None:
    step = counting()
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables(), recovery_wait_secs=0.1)
    saver = tf.train.Saver()
    waiting: dict[str, Any] = {"saver": saver, "checkpoint_dir": "none", "wait_for_checkpoint": True}
    waiting["max_wait_secs"] = 0.2
    with manager.prepare_session("", init_op=tf.global_variables_initializer(), **waiting) as sess:
        assert sess.run(step) == 1
        saver.save(sess, "some/x")
    recovered, loaded = manager.recover_session("", **waiting)
    recovered.close()
    assert not loaded
    recovered, loaded = manager.recover_session("", saver=saver, checkpoint_dir="some")
    assert loaded and recovered.run(step) == 2
    recovered.close()


def test_the_session_underneath_is_found_level_by_level() -> None:
    counting()
    with tf.train.MonitoredTrainingSession() as sess:
        found: Any = sess
        while type(found).__name__ != "Session":
            found = found._sess
        assert found is sess._tf_sess()
