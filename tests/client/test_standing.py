"""Standing runs, as those of queue runners: what they meet, the program's own runs hear of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dtfzmq as tf
from dtfzmq.client.standing import StandingRun
from tests.kit import servers
from tests.kit.waiting import wait_for


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def caught(fn: Any) -> tuple[threading.Thread, list[BaseException]]:
    """Call `fn` on a thread, which is started; a list that gets what it raises."""
    found: list[BaseException] = []

    def work() -> None:
        try:
            fn()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, found


@pytest.mark.parametrize("network", [False, True], ids=["same process", "over a link"])
@pytest.mark.parametrize("waits", [True, False], ids=["a run waits", "no run is under way"])
def test_a_task_that_a_standing_run_lost_is_an_error_of_the_programs_run(waits: bool, network: bool) -> None:
    config = tf.ConfigProto()
    config.rpc_options.use_rpc_for_inprocess_master = network
    with servers.start({"ps": 1, "worker": 1}) as made:
        with tf.device("/job:ps/task:0"):
            theirs = tf.FIFOQueue(1, tf.float32, [[]]).dequeue()
        with tf.device("/job:worker/task:0"):
            ours = tf.FIFOQueue(1, tf.float32, [[]]).dequeue()
            here = tf.random_uniform([])
        with tf.Session(made["worker:0"].target, config=config) as session:
            session.run(here)
            threads = [caught(StandingRun(session, theirs))]
            if waits:
                threads.append(caught(lambda: session.run(ours)))
            steps = made["worker:0"].core.master.statistics
            wait_for(lambda: steps()["steps"]["running"] == len(threads))
            made["ps:0"].stop()
            for thread, found in threads:
                thread.join(20)
                assert len(found) == 1 and isinstance(found[0], tf.errors.UnavailableError), found
                assert "/job:ps/replica:0/task:0" in str(found[0])
            if not waits:
                with pytest.raises(tf.errors.UnavailableError, match="/job:ps/replica:0/task:0"):
                    session.run(here)
            assert 0 <= session.run(here) < 1, "told once"
            assert not steps()["steps"]["running"]
