"""A client that is out of reach takes nothing, since it may be gone; one that comes back goes on as if nothing was."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from dtfzmq.cluster.master import ABANDONED_S
from dtfzmq.wire import frames
from dtfzmq.wire.messages import RunStep
from dtfzmq.wire.settings import LinkSettings
from dtfzmq.wire.transport import BULK, CONTROL
from tests.kit.simcluster import SimCluster, SimSession

PS = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:0"


class Answers:
    """What steps were answered with."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def __call__(self, values: Any, error: errors.OpError | None) -> None:
        self.found.append(values if error is None else error)

    def last(self) -> Any:
        value = self.found[-1]
        return [v.tolist() for v in value] if isinstance(value, list) else value


class Cluster(SimCluster):
    """A ps and a worker; `master` is where clients go."""

    def __init__(self, master: str, seed: int = 3) -> None:
        super().__init__(seed, {"ps": 1, "worker": 1})
        self.master = master


@pytest.fixture(params=[PS, WORKER], ids=["at its master", "at another task"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return Cluster(request.param)


class Program:
    """What may be waited for, on the ps."""

    def __init__(self) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device(PS):
            queue = tf.FIFOQueue(9, tf.int32, [[]], shared_name="q")
            gradients = tf.ConditionalAccumulator(tf.float32, [], shared_name="a")
            self.put, self.size = queue.enqueue(7), queue.size()
            self.take, self.two = queue.dequeue(), queue.dequeue_many(2)
            self.fed = tf.placeholder(tf.float32, [1000], name="fed")
            with tf.control_dependencies([self.fed.op]):
                self.take_if_fed = queue.dequeue()
            self.apply, self.count = gradients.apply_grad(2.0), gradients.num_accumulated()
            self.mean = gradients.take_grad(1)


PROGRAM = Program()


def client(cluster: Cluster) -> SimSession:
    session = cluster.session(cluster.master, PROGRAM.graph)
    opened = Answers()
    session.open(opened)
    cluster.loop.run(0.5)
    assert len(opened.found) == 1
    return session


def run(cluster: Cluster, session: SimSession, fetch: Any, seconds: float = 0.1) -> Any:
    answers = Answers()
    session.run([fetch], answers)
    cluster.loop.run(seconds)
    return answers.last() if answers.found else None


@pytest.mark.parametrize(
    ("take", "give", "left"),
    [
        (PROGRAM.take, PROGRAM.put, PROGRAM.size),
        (PROGRAM.two, PROGRAM.put, PROGRAM.size),
        (PROGRAM.mean, PROGRAM.apply, PROGRAM.count),
    ],
    ids=["an element", "elements", "gradients"],
)
def test_a_killed_client_takes_nothing(cluster: Cluster, take: Any, give: Any, left: Any) -> None:
    other, dead = client(cluster), client(cluster)
    if take is PROGRAM.two:
        run(cluster, other, give)  # it is taken already, and given back
    assert run(cluster, dead, take) is None
    cluster.net.kill(dead.host)
    cluster.loop.run(0.05)
    for _ in range(2 if take is PROGRAM.two else 1):
        run(cluster, other, give)
    before = run(cluster, other, left)
    assert before[0] >= 1, "nothing was taken for one that may be gone"
    cluster.loop.run(10.0)
    assert run(cluster, other, left) == before, "nor when it was found to be"
    assert run(cluster, other, take)[0] is not None
    for server in cluster.servers.values():
        assert not server.leftovers()


def test_a_client_that_is_reached_again_gets_what_it_waited_for(cluster: Cluster) -> None:
    other, away = client(cluster), client(cluster)
    answers = Answers()
    away.run([PROGRAM.take], answers)
    cluster.loop.run(0.1)
    cluster.net.slow(away.host.name, 100.0)  # so that its new lane takes a while
    for end in cluster.net.pairs():
        if end.host is away.host:
            cluster.net.end_lane(end)
    cluster.loop.run(0.03)
    run(cluster, other, PROGRAM.put, 0.03)
    assert not answers.found
    cluster.loop.run(3.0)
    assert answers.last() == [7]
    assert run(cluster, other, PROGRAM.size) == [0]


def test_others_go_first_while_a_client_is_out_of_reach(cluster: Cluster) -> None:
    other, dead, next_ = client(cluster), client(cluster), client(cluster)
    assert run(cluster, dead, PROGRAM.take) is None
    answers = Answers()
    next_.run([PROGRAM.take], answers)
    cluster.loop.run(0.1)
    cluster.net.kill(dead.host)
    cluster.loop.run(0.05)
    run(cluster, other, PROGRAM.put)
    assert answers.last() == [7]


def test_a_step_that_was_planned_when_its_client_went_takes_nothing() -> None:
    cluster = Cluster(WORKER)
    other, dead = client(cluster), client(cluster)
    run(cluster, other, PROGRAM.put)
    cluster.net.slow(PS, 100.0)  # so that registering the step takes longer than to hear that a connection ended
    dead.run([PROGRAM.take], Answers())
    cluster.loop.run(0.01)
    cluster.net.kill(dead.host)
    cluster.loop.run(0.9)
    assert cluster.servers[PS].core.worker.steps, "the step came there"
    cluster.loop.run(10.0)
    cluster.net.slow(PS, 1.0)
    assert not cluster.servers[PS].core.worker.steps
    assert run(cluster, other, PROGRAM.size) == [1]


def test_a_partial_run_ends_with_its_client(cluster: Cluster) -> None:
    dead = client(cluster)
    ready = Answers()
    dead.begin([PROGRAM.take], ready)
    cluster.loop.run(0.5)
    assert len(ready.found) == 1
    cluster.net.kill(dead.host)
    cluster.loop.run(5.0)
    for server in cluster.servers.values():
        assert not server.leftovers()


def test_a_partial_run_of_a_client_that_was_lost_and_is_back_is_unavailable(cluster: Cluster) -> None:
    session, answers = client(cluster), Answers()
    begun: list[Any] = []
    session.begin([PROGRAM.take], lambda reply, error: begun.append(reply))
    cluster.loop.run(0.5)
    cluster.net.cut(session.host.name, cluster.master)
    cluster.loop.run(2 * cluster.settings.limit)
    cluster.net.heal(session.host.name, cluster.master)
    session.go_on(begun[0].partial, [PROGRAM.take], answers)
    cluster.loop.run(3.0)
    (error,) = answers.found
    assert isinstance(error, errors.UnavailableError) and "its client was lost" in error.message, error


class SlowFeed:
    """A step at the ps is on its way there, and waits for a lane that brings its feed; `opened` lets it come."""

    def __init__(self, cluster: Cluster, session: SimSession, timeout: float = 0.0) -> None:
        self.cluster = cluster
        self.host = session.host
        self.answers = Answers()
        self._sent: list[str] = []
        cluster.net.watchers.append(self._watch)
        cluster.net.bulk = False
        for end in cluster.net.pairs():
            bulk = getattr(end.events, "kind", CONTROL) == BULK
            if bulk and end.other is not None and {end.host.name, end.other.host.name} == {PS, WORKER}:
                cluster.net.end_lane(end)
        cluster.loop.run(0.1)
        cluster.net.slow(PS, 100.0)  # so that registering the step takes longer than to hear that a connection ended
        session.run([PROGRAM.take_if_fed], self.answers, timeout, {"fed:0": np.zeros(1000, np.float32)})

    def _watch(self, source: str, target: str, frame_list: Sequence[Any]) -> None:
        header = msgpack.unpackb(frame_list[0], strict_map_key=False)
        if (source, target) == (WORKER, PS) and header[0] in (frames.REQUEST, frames.TELL):
            self._sent.append(header[-1][0])

    def told(self, what: str) -> None:
        """Go on until the master has told the ps so, and a little longer."""
        for _ in range(4000):
            self.cluster.loop.run(0.0005)
            if what in self._sent:
                return
        raise AssertionError(f"no {what} among {self._sent}")

    def disconnected(self) -> None:
        """The client's lanes end."""
        for end in self.cluster.net.pairs():
            if end.host is self.host:
                self.cluster.net.end_lane(end)

    def opened(self) -> None:
        """What the master told arrives, and then the feed."""
        self.cluster.net.slow(PS, 1.0)
        self.cluster.loop.run(0.1)
        assert not self.cluster.servers[PS].core.worker.steps
        worker = self.cluster.servers[PS].core.worker
        came = worker.parts_run
        self.cluster.net.bulk = True
        for _ in range(1000):
            self.cluster.loop.run(0.001)
            if worker.parts_run > came:
                break
        self.cluster.loop.run(0.1)


def test_a_step_whose_feeds_come_after_its_release_goes_on() -> None:
    cluster = Cluster(WORKER)
    other, away = client(cluster), client(cluster)
    run(cluster, other, PROGRAM.put)
    step = SlowFeed(cluster, away)
    step.told("RegisterGraph")
    step.disconnected()
    cluster.net.slow(away.host.name, 500.0)
    step.told("RunGraph")
    step.told("HoldStep")
    cluster.net.slow(away.host.name, 1.0)
    step.opened()
    assert step.answers.last() == [7]


def test_a_step_whose_feeds_come_after_its_hold_takes_nothing() -> None:
    cluster = Cluster(WORKER)
    other, dead = client(cluster), client(cluster)
    run(cluster, other, PROGRAM.put)
    step = SlowFeed(cluster, dead)
    step.told("RunGraph")
    step.disconnected()
    cluster.net.slow(dead.host.name, 10_000.0)
    step.told("HoldStep")
    step.opened()
    assert cluster.servers[PS].core.worker.steps, "the step came there"
    assert run(cluster, other, PROGRAM.size) == [1]


def test_a_step_whose_feeds_come_after_its_end_does_not_begin() -> None:
    cluster = Cluster(WORKER)
    other, late = client(cluster), client(cluster)
    step = SlowFeed(cluster, late, 0.5)
    step.told("RunGraph")
    step.told("CleanupGraph")
    step.opened()
    assert isinstance(step.answers.last(), tf.errors.DeadlineExceededError)
    assert not cluster.servers[PS].core.worker.steps
    run(cluster, other, PROGRAM.put)
    assert run(cluster, other, PROGRAM.size) == [1]


class Kept:
    """What the one session of a cluster holds."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def sessions(self) -> int:
        return len(self._cluster.servers[self._cluster.master].core.master.sessions)

    def plans(self) -> int:
        return sum(len(s.plans) for s in self._cluster.servers[self._cluster.master].core.master.sessions.values())

    def parts(self) -> list[int]:
        """Of each session of a worker."""
        workers = [server.core.worker for server in self._cluster.servers.values()]
        return [len(session.parts) for worker in workers for session in worker.sessions.values()]


def test_a_killed_client_leaves_no_plan_now_and_no_session_later(cluster: Cluster) -> None:
    session, waits, kept = client(cluster), Answers(), Kept(cluster)
    assert run(cluster, session, PROGRAM.size) == [0]
    session.run([PROGRAM.take], waits)
    cluster.loop.run(0.5)
    assert (kept.sessions(), kept.plans(), kept.parts()) == (1, 2, [2])
    cluster.net.kill(session.host)
    cluster.loop.run(2 * cluster.settings.limit)
    assert (kept.sessions(), kept.plans(), kept.parts()) == (1, 0, [0])
    cluster.loop.run(ABANDONED_S)
    assert (kept.sessions(), kept.parts()) == (0, [])


def test_a_client_that_says_goodbye_leaves_no_session_though_it_closed_none(cluster: Cluster) -> None:
    session, waits, kept = client(cluster), Answers(), Kept(cluster)
    session.run([PROGRAM.take], waits)
    cluster.loop.run(0.5)
    assert (kept.sessions(), kept.parts()) == (1, [1])
    session.endpoint.close("the client left")
    cluster.loop.run(0.5)
    assert (kept.sessions(), kept.parts()) == (0, [])
    for server in cluster.servers.values():
        assert not server.leftovers()


@pytest.mark.parametrize("how", ["run", "partial"])
def test_a_client_that_is_back_in_time_has_its_session(cluster: Cluster, how: str) -> None:
    session, kept = client(cluster), Kept(cluster)
    assert run(cluster, session, PROGRAM.put) == []
    cluster.net.cut(session.host.name, cluster.master)
    cluster.loop.run(2 * cluster.settings.limit)
    assert (kept.sessions(), kept.plans(), kept.parts()) == (1, 0, [0])
    cluster.net.heal(session.host.name, cluster.master)
    if how == "run":
        assert run(cluster, session, PROGRAM.size, 3.0) == [1]
        assert run(cluster, session, PROGRAM.put) == []
        assert (kept.plans(), kept.parts()) == (2, [2])
    else:
        begun = Answers()
        session.begin([PROGRAM.size], begun)
        cluster.loop.run(3.0)
        assert len(begun.found) == 1 and not isinstance(begun.found[0], Exception)
    cluster.loop.run(2 * ABANDONED_S)
    assert kept.sessions() == 1


@pytest.mark.parametrize("begun", ["at once", "before its connection is found to have ended", "while it dials"])
def test_what_a_client_asks_first_that_was_given_up_is_not_lost(cluster: Cluster, begun: str) -> None:
    session = client(cluster)
    assert run(cluster, session, PROGRAM.put) == []
    cluster.net.stop(session.host)
    cluster.loop.run(2 * cluster.settings.limit)
    answers = Answers()
    if begun == "at once":
        session.run([PROGRAM.size], answers)  # before anything that its loop has to tell
    cluster.net.slow(session.host.name, 20.0)
    cluster.net.resume(session.host)
    if begun != "at once":
        cluster.loop.run(0.0 if begun.startswith("before") else 0.005)
        session.run([PROGRAM.size], answers)
    cluster.loop.run(3.0)
    assert answers.found and answers.last() == [1]
    assert run(cluster, session, PROGRAM.put, 3.0) == []


def test_what_the_master_had_of_a_client_that_it_gave_up_is_not_asked_again(cluster: Cluster) -> None:
    other, session, waits = client(cluster), client(cluster), Answers()
    session.run([PROGRAM.take], waits)
    cluster.loop.run(0.1)
    cluster.net.stop(session.host)
    cluster.loop.run(2 * cluster.settings.limit)
    cluster.net.resume(session.host)
    cluster.loop.run(3.0)
    assert isinstance(waits.last(), errors.UnavailableError), "it may have been done"
    assert run(cluster, other, PROGRAM.put) == []
    assert run(cluster, other, PROGRAM.size) == [1]


class Coming:
    """A client that is stopped, cut off and loses lanes, by seed, while it runs steps that count."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster = Cluster(self.rng.choice([PS, WORKER]), seed)
        self.other, self.session = client(self.cluster), client(self.cluster)
        self.answers: list[Answers] = []
        self.asked_again = 0
        #: How often the master was asked for each run.
        self.began = collections.Counter[int]()
        handlers = self.cluster.servers[self.cluster.master].core.service.handlers
        serve, ask = handlers[RunStep], self.session._connection.ask

        def served(link: Any, message: Any, reply: Any) -> None:
            self.began[message.run] += 1
            serve(link, message, reply)

        def asked(message: Any, answer: Any) -> None:
            self.asked_again += answer.call is not None
            ask(message, answer)

        handlers[RunStep] = served
        self.session._connection.ask = asked  # type: ignore[method-assign]  # to look on

    def strike(self) -> None:
        rng, net, loop, host = self.rng, self.cluster.net, self.cluster.loop, self.session.host
        mend = rng.choice([0.1, 1.5, 3.5, 6.0])
        kind = rng.choice(["stop", "stop", "cut", "lane"])
        if kind == "stop" and not host.stopped:
            net.stop(host)
            loop.call_later(mend, net.resume, host)
        elif kind == "cut":
            net.cut(host.name, self.cluster.master)
            loop.call_later(mend, net.heal, host.name, self.cluster.master)
        elif kind == "lane":
            for end in net.ends_of(host)[:1]:
                net.end_lane(end)

    def check(self) -> None:
        for _ in range(12):
            self.cluster.net.latency = self.rng.choice([0.0005, 0.01])
            if self.rng.random() < 0.4:
                self.strike()
            self.answers.append(Answers())
            self.session.run([PROGRAM.apply], self.answers[-1])
            self.cluster.loop.run(self.rng.choice([0.0, 0.002, 0.02, 0.1, 4.0]))
        self.cluster.loop.run(30.0)
        assert all(len(answers.found) == 1 for answers in self.answers), "each is answered, once"
        errors_met = [a.found[0] for a in self.answers if isinstance(a.found[0], Exception)]
        assert all(isinstance(error, errors.UnavailableError) for error in errors_met), errors_met
        assert max(self.began.values(), default=1) == 1, "no master is asked twice"
        (count,) = run(self.cluster, self.other, PROGRAM.count, 3.0)
        done = len(self.answers) - len(errors_met)
        assert done <= count <= len(self.answers)


@pytest.mark.timeout(900)
def test_steps_of_a_client_that_comes_and_goes_run_once(
    request: pytest.FixtureRequest, tell: Callable[[Mapping[str, int]], None]
) -> None:
    one, count = request.config.getoption("--seed"), request.config.getoption("--seeds")
    seeds = [one] if one is not None else range(count)
    counts = collections.Counter[str]()
    for seed in seeds:
        coming = Coming(seed)
        try:
            coming.check()
        except BaseException as exc:
            exc.args = (f"seed {seed}: {exc}",)
            raise
        counts["asked again"] += coming.asked_again
        counts["failed"] += sum(isinstance(a.found[0], Exception) for a in coming.answers)
        counts["done"] += sum(not isinstance(a.found[0], Exception) for a in coming.answers)
    tell(counts)
    assert len(seeds) < 20 or all(counts[kind] > 0 for kind in ("asked again", "failed", "done"))


def test_a_session_is_kept_as_long_as_its_client_may_take_to_be_back() -> None:
    usual = LinkSettings()
    assert usual.limit + usual.connect_limit <= ABANDONED_S
