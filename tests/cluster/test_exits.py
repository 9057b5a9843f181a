"""A process that ends without stopping its server: others hear how its parts ended, its own threads nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dtfzmq as tf
from dtfzmq.cli.ask import ask
from dtfzmq.wire.messages import Status, StatusReport
from tests.kit.cluster import Cluster, Task
from tests.kit.waiting import wait_for

Script = Callable[[str], Task]

BEGIN = """
import atexit, sys, threading, time
atexit.register(time.sleep, 0.2)  # after those of dtfzmq, since it is registered before
import dtfzmq as tf
from dtfzmq.runtime.queues import FIFOQueue

server = tf.train.Server({"ps": sys.argv[1:]}, "ps", 0)
began = threading.Event()
"""

LATE = """
whole = FIFOQueue.enqueue

def late(queue, *args):
    began.set()
    threading.main_thread().join()
    time.sleep(0.4)  # as one that computes
    whole(queue, *args)

FIFOQueue.enqueue = late
print("ready", flush=True)
began.wait()
"""

STOPPING = """
threading.Thread(target=server.stop, daemon=True).start()
while not server.ended:
    pass
"""

DAEMONS = """
session = tf.Session(server.target)
dequeue = tf.FIFOQueue(1, tf.int32).dequeue()
counts = [0, 0]
number = tf.random_uniform([])

def block():
    session.run(dequeue)

def count(i):
    while True:
        session.run(number)
        counts[i] += 1

for work in (block, lambda: count(0), lambda: count(1)):
    threading.Thread(target=work, daemon=True).start()
while min(counts) < 100 or not server.core.worker.steps:
    pass
"""

PAIR = """
servers = [server, tf.train.Server(server.server_def.cluster, "ps", 1)]
counts = [0] * 4
numbers = []
for i in range(2):
    with tf.device(f"/job:ps/task:{i}"):
        numbers.append(tf.random_uniform([]))
        dequeue = tf.FIFOQueue(1, tf.int32).dequeue()
        threading.Thread(target=tf.Session(servers[1 - i].target).run, args=(dequeue,), daemon=True).start()

def count(k, fetches):
    with tf.Session(servers[k % 2].target) as session:
        while True:
            session.run(fetches)
            counts[k] += 1

for k, fetches in enumerate((numbers[1], numbers[0], numbers, numbers)):
    threading.Thread(target=count, args=(k, fetches), daemon=True).start()
while min(counts) < 50 or not all(s.core.worker.steps for s in servers):
    pass
"""

STUCK = """
def kernel(x):
    began.set()
    threading.Event().wait()

session = tf.Session(server.target)
stuck = tf.py_func(kernel, [1.0], tf.float32)
threading.Thread(target=session.run, args=(stuck,), daemon=True).start()
began.wait()
"""

LATER = """
session = tf.Session(server.target)
session.run(tf.constant(1))
{how}
"""


CLIENT = """
import sys
import dtfzmq as tf

session = tf.Session("zmq://" + sys.argv[1])
dequeue = tf.FIFOQueue(1, tf.int32, shared_name="q").dequeue()
session.run(tf.constant(1))
{more}
"""


@pytest.fixture
def cluster(processes: Any) -> Cluster:
    made: Cluster = processes({"ps": 2})
    return made


@pytest.fixture
def script(cluster: Cluster, tmp_path: Path) -> Script:
    def start(text: str) -> Task:
        path = tmp_path / "ends.py"
        path.write_text(BEGIN + text)
        return cluster.script(path, cluster.address("ps"), cluster.address("ps", 1))

    return start


@pytest.mark.parametrize("more", ["", STOPPING], ids=["", "while a thread stops its server"])
def test_a_part_that_computes_answers_before_its_process_ends(cluster: Cluster, script: Script, more: str) -> None:
    task = script(LATE + more)
    task.wait_printed("ready")
    with tf.Graph().as_default(), tf.Session(f"zmq://{cluster.address('ps')}") as session:
        session.run(tf.FIFOQueue(1, tf.int32).enqueue(1))
        assert task.wait() == 0, task.output()


@pytest.mark.parametrize("text", [DAEMONS, PAIR, STUCK], ids=["run", "run at two servers", "are stuck"])
def test_daemon_threads_that_run_steps_hold_up_no_end_and_say_nothing(script: Script, text: str) -> None:
    task = script(text)
    assert task.wait() == 0, task.output()
    assert task.output() == ""


@pytest.mark.parametrize("how", ["atexit.register(session.close)", "atexit.register(server.stop)", ""])
@pytest.mark.parametrize("early", [True, False])
def test_what_a_process_ends_itself_when_it_ends_is_ended(script: Script, how: str, early: bool) -> None:
    text = LATER.format(how=how)
    if early:  # handlers run in the opposite order
        text += "\nfrom dtfzmq.cluster import server as module\n"
        text += "atexit.unregister(module._leave_at_exit)\natexit.register(module._leave_at_exit)\n"
    task = script(text)
    assert task.wait() == 0, task.output()
    assert task.output() == ""


@pytest.mark.parametrize(
    "more",
    [
        "",
        "sys.exit(0)",
        "import atexit; atexit.register(session.close)",
        "import threading; threading.Thread(target=session.run, args=(dequeue,), daemon=True).start()",
        """
import threading
count = [0] * 4
def loop(i):
    while True:
        session.run(tf.get_default_graph().get_operations()[-1].outputs[0])
        count[i] += 1
for i in range(4):
    threading.Thread(target=loop, args=(i,), daemon=True).start()
while min(count) < 20:
    pass
""",
        """
import os
child = os.fork()
if not child:
    sys.exit(0)
os.waitpid(child, 0)
session.run(tf.constant(1))
""",
    ],
    ids=["", "by sys.exit", "and closes it", "amid a run", "amid many", "after its child"],
)
def test_a_client_that_ends_leaves_no_session(cluster: Cluster, tmp_path: Path, more: str) -> None:
    cluster.start("ps")
    path = tmp_path / "client.py"
    path.write_text(CLIENT.format(more=more))
    for _ in range(3):
        client = cluster.script(path, cluster.address("ps"))
        assert client.wait() == 0, client.output()
        assert client.output() == ""
        # Of a client that is only gone a session stays for 35 s.
        wait_for(lambda: not status(cluster)["sessions"], 5)


def status(cluster: Cluster) -> dict[str, Any]:
    (reply,) = ask([cluster.target("ps")], Status(), 5.0)
    assert isinstance(reply, StatusReport), reply
    return reply.report
