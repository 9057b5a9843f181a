"""Placement by TensorFlow 1.x's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dtfzmq.base import dtypes, errors
from dtfzmq.graph.node import Node
from dtfzmq.plan.devices import DevicesNeeded, DeviceTable
from dtfzmq.plan.place import Placer
from dtfzmq.plan.prune import prune
from tests.runtime.programs import Builder, F

PS0, PS1 = "/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"
W0, W1 = "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"
CPU = "/device:CPU:0"


def table(**more: Any) -> DeviceTable:
    return DeviceTable(W0, [W0 + CPU], [PS0, PS1, W0, W1], **more)


def place(nodes: Sequence[Node], targets: Sequence[int], placer: Placer | None = None, **more: Any) -> dict[str, str]:
    if placer is None:
        placer = Placer(table(), **more)
        placer.extend(nodes)
    pruned = prune(nodes, [], [], targets)
    placer.place(pruned)
    return {n.name: n.device for n in pruned.nodes}


def one(device: str, **more: Any) -> str:
    b = Builder()
    b.add("NoOp", types=(), device=device, name="n")
    return place(b.nodes, [0], **more)["n"]


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("", PS0),
        ("/job:ps", PS0),
        ("/job:worker", W0),
        ("/task:1", PS1),
        ("/cpu:0", PS0),
        ("/job:ps/task:1/device:CPU:0", PS1),
        ("/JOB:worker/task:1/CPU:0", W1),
    ],
)
def test_the_first_device_by_name_that_matches(asked: str, given: str) -> None:
    assert one(asked) == given + CPU


def test_task_10_sorts_before_task_2() -> None:
    tasks = [f"/job:ps/replica:0/task:{k}" for k in (2, 10)]
    placer = Placer(DeviceTable(W0, [W0 + CPU], tasks))
    b = Builder()
    b.add("NoOp", types=(), device="/job:ps", name="n")
    placer.extend(b.nodes)
    assert place(b.nodes, [0], placer)["n"] == "/job:ps/replica:0/task:10" + CPU


def test_a_reference_keeps_its_consumers_and_its_device_wins() -> None:
    b = Builder()
    v = b.variable("v", "/job:ps/task:0")
    w = b.variable("w", "/job:ps/task:1")
    x = b.const(1.0, name="x")
    a = b.assign("Assign", v, x, "/job:ps/task:1", name="a")
    c = b.assign("AssignAdd", a, x, name="c")
    r = b.add("Identity", [w], device="/job:worker/task:1", name="r")
    found = place(b.nodes, [a[0], c[0], r[0]])
    assert found["v"] == found["a"] == found["c"] == PS0 + CPU
    assert found["x"] == PS0 + CPU  # a constant follows its consumers
    assert found["w"] == PS1 + CPU and found["r"] == W1 + CPU  # reading does not unite


def test_resource_handles_unite_too() -> None:
    b = Builder()
    q = b.add("FIFOQueueV2", (), (dtypes.resource,), name="q", component_types=[F], shapes=[], capacity=1)
    e = b.add("QueueEnqueueV2", [q, b.const(1.0)], (), device="/job:worker/task:1", name="e")
    found = place(b.nodes, [e[0]])
    assert found["q"] == found["e"] == W1 + CPU


def test_colocation_by_name_and_its_conflict() -> None:
    b = Builder()
    b.variable("v", "/job:ps/task:1")
    n = b.add("NoOp", types=(), name="n", _class=[b"loc:@v"])
    assert place(b.nodes, [n[0]])["n"] == PS1 + CPU
    bad = b.add("NoOp", types=(), device="/job:worker", name="bad", _class=["loc:@v"])
    placer = Placer(table())
    placer.extend(b.nodes)
    with pytest.raises(errors.InvalidArgumentError) as raised:
        place(b.nodes, [bad[0]], placer)
    assert (
        "Cannot colocate nodes {{colocation_node bad}} and {{colocation_node v}}: Cannot merge devices with "
        "incompatible jobs: '/job:worker' and '/job:ps/task:1'" in raised.value.message
    )


def test_a_bad_node_harms_only_steps_that_need_it() -> None:
    b = Builder()
    good = b.add("NoOp", types=(), name="good")
    bad = b.add("NoOp", types=(), device="/job:nope", name="bad")
    ugly = b.add("NoOp", types=(), device="/nonsense here", name="ugly")
    placer = Placer(table())
    placer.extend(b.nodes)
    assert place(b.nodes, [good[0]], placer)["good"] == PS0 + CPU
    for index, text in (
        (
            bad[0],
            "Cannot assign a device for operation bad: {{node bad}} was explicitly assigned to /job:nope but available "
            f"devices are [ {PS0 + CPU}, {PS1 + CPU}, {W0 + CPU}, {W1 + CPU} ]. Make sure the device specification "
            "refers to a valid device. The jobs of this cluster are: ps, worker.",
        ),
        (ugly[0], "Malformed device specification '/nonsense here' in node: ugly"),
    ):
        with pytest.raises(errors.InvalidArgumentError) as raised:
            place(b.nodes, [index], placer)
        assert text in raised.value.message
    assert place(b.nodes, [good[0]], placer)["good"] == PS0 + CPU


def test_hints_of_the_placement_error() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="Did you mean '/job:worker'?"):
        one("/job:wroker")
    with pytest.raises(errors.InvalidArgumentError, match="There is no task 7 in job ps"):
        one("/job:ps/task:7")
    alone = Placer(DeviceTable("/job:localhost/replica:0/task:0", ["/job:localhost/replica:0/task:0" + CPU]))
    b = Builder()
    b.add("NoOp", types=(), device="/job:ps", name="n")
    alone.extend(b.nodes)
    with pytest.raises(errors.InvalidArgumentError, match="server.target"):
        place(b.nodes, [0], alone)


def test_a_filter_that_hides_a_needed_task_is_named() -> None:
    placer = Placer(table(filters=["/job:ps", "/job:worker/task:0"]))
    b = Builder()
    hidden = b.add("NoOp", types=(), device="/job:worker/task:1", name="hidden")
    free = b.add("NoOp", types=(), name="free")
    placer.extend(b.nodes)
    assert place(b.nodes, [free[0]], placer)["free"] == PS0 + CPU
    with pytest.raises(errors.InvalidArgumentError) as raised:
        place(b.nodes, [hidden[0]], placer)
    message = raised.value.message
    assert "{{node hidden}}" in message and "/job:worker/task:1" in message and "'/job:worker/task:0'" in message


def test_the_own_task_is_never_hidden_and_is_all_that_is_left() -> None:
    placer = Placer(table(filters=["/job:unknown"]))
    b = Builder()
    n = b.add("NoOp", types=(), name="n")
    placer.extend(b.nodes)
    assert place(b.nodes, [n[0]], placer)["n"] == W0 + CPU


def test_other_devices_are_asked_for_when_a_node_names_them() -> None:
    devices = table()
    placer = Placer(devices)
    b = Builder()
    n = b.add("NoOp", types=(), device="/job:ps/cpu:1", name="n")
    placer.extend(b.nodes)
    with pytest.raises(DevicesNeeded) as needed:
        place(b.nodes, [n[0]], placer)
    assert needed.value.tasks == [PS0, PS1]
    devices.learn(PS0, [PS0 + CPU])
    devices.learn(PS1, [PS1 + CPU, PS1 + "/device:CPU:1"])
    assert place(b.nodes, [n[0]], placer)["n"] == PS1 + "/device:CPU:1"


def known() -> DeviceTable:
    devices = table()
    for task in (PS0, PS1, W1):
        devices.learn(task, [task + CPU])
    return devices


def test_soft_placement_gives_up_type_and_number_never_the_task() -> None:
    b = Builder()
    n = b.add("NoOp", types=(), device="/job:ps/task:1/gpu:0", name="n")
    soft = Placer(known(), soft=True)
    soft.extend(b.nodes)
    assert place(b.nodes, [n[0]], soft)["n"] == PS1 + CPU
    hard = Placer(known())
    hard.extend(b.nodes)
    with pytest.raises(errors.InvalidArgumentError, match="appears to be a GPU, but CUDA is not enabled"):
        place(b.nodes, [n[0]], hard)
    b = Builder()
    n = b.add("NoOp", types=(), device="/job:nope/gpu:0", name="n")
    soft = Placer(known(), soft=True)
    soft.extend(b.nodes)
    with pytest.raises(errors.InvalidArgumentError, match="/job:nope"):
        place(b.nodes, [n[0]], soft)


def test_gpus_come_before_cpus() -> None:
    devices = table()
    devices.learn(W1, [W1 + CPU, W1 + "/device:GPU:0"])
    placer = Placer(devices)
    b = Builder()
    n = b.add("NoOp", types=(), name="n")
    placer.extend(b.nodes)
    assert place(b.nodes, [n[0]], placer)["n"] == W1 + "/device:GPU:0"


def test_generators_follow_consumers_that_agree_and_metadata_its_input() -> None:
    b = Builder()
    x, y = b.const(1.0, name="x"), b.const(2.0, name="y")
    m = b.binary("Add", x, x, "/job:worker/task:1", name="m")
    n = b.binary("Add", y, y, "/job:worker/task:1", name="n")
    o = b.binary("Add", y, y, "/job:ps/task:1", name="o")
    s = b.add("Shape", [m], (dtypes.int32,), name="s")
    fixed = b.const(3.0, "/job:ps/task:1", name="fixed")
    p = b.binary("Add", fixed, m, "/job:worker", name="p")
    found = place(b.nodes, [n[0], o[0], s[0], p[0]])
    assert found["x"] == found["s"] == W1 + CPU
    assert found["y"] == PS0 + CPU  # its consumers disagree: the first device by name
    assert found["fixed"] == PS1 + CPU


def test_a_capture_follows_what_consumes_it_inside() -> None:
    b = Builder()
    x = b.const(1.0, name="x")
    pred = b.binary("Less", b.const(0.0), b.const(1.0), "/job:worker", dtypes.bool_)
    branches = []
    for k in range(2):
        inner = Builder(f"{k}/")
        inner.ret(inner.add("Neg", [inner.arg()], device="/job:worker/task:1"))
        branches.append(inner)
    index = b.branch(pred, [x], branches, [F])
    assert place(b.nodes, [index])["x"] == W1 + CPU


def test_placements_stay_as_the_graph_grows() -> None:
    b = Builder()
    v = b.variable("v")
    placer = Placer(table())
    placer.extend(b.nodes)
    assert place(b.nodes, [v[0]], placer)["v"] == PS0 + CPU
    before = len(b.nodes)
    a = b.assign("Assign", v, b.const(1.0), "/job:worker/task:1", name="a")
    placer.extend(b.nodes[before:])
    found = place(b.nodes, [a[0]], placer)
    assert found["v"] == found["a"] == PS0 + CPU


def test_an_unplaced_queue_placed_by_its_dequeue_stays_there() -> None:
    b = Builder()
    q = b.add("FIFOQueueV2", (), (dtypes.resource,), name="q", component_types=[F], shapes=[], capacity=1)
    d = b.add("QueueDequeueV2", [q], device="/job:worker/task:1", name="d", component_types=[F])
    placer = Placer(table())
    placer.extend(b.nodes)
    assert place(b.nodes, [q[0]], placer)["q"] == W1 + CPU
    assert place(b.nodes, [d[0]], placer)["q"] == W1 + CPU


def test_the_log_hears_of_each_placement_once() -> None:
    lines: list[str] = []
    b = Builder()
    n = b.binary("Add", b.const(1.0, name="x"), b.const(1.0, name="y"), "/job:ps", name="n")
    placer = Placer(table(), log=lines.append)
    placer.extend(b.nodes)
    for _ in range(2):
        place(b.nodes, [n[0]], placer)
    assert sorted(lines) == [f"n: (Add): {PS0}{CPU}", f"x: (Const): {PS0}{CPU}", f"y: (Const): {PS0}{CPU}"]


def test_a_variable_captured_in_a_branch_unites_with_its_update_there() -> None:
    b = Builder()
    v = b.variable("v", "/job:ps/task:1")
    pred = b.binary("Less", b.const(0.0), b.const(1.0), "/job:worker", dtypes.bool_)
    branches = []
    for k in range(2):
        inner = Builder(f"{k}/")
        ref = inner.arg(F.ref)
        added = inner.assign("AssignAdd", ref, inner.const(1.0), name="added")
        inner.ret(inner.add("Identity", [ref], control=[added[0]], device="/job:worker"))
        branches.append(inner)
    index = b.branch(pred, [v], branches, [F])
    placer = Placer(table())
    placer.extend(b.nodes)
    pruned = prune(b.nodes, [], [], [index])
    placer.place(pruned)
    (node,) = [n for n in pruned.nodes if n.op == "If"]
    found = {n.name: n.device for n in node.attrs["then_branch"].nodes}
    assert found["0/added"] == PS1 + CPU
