"""Where replica_device_setter puts ops. No session is needed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dtfzmq.cluster.spec import ClusterSpec
from dtfzmq.graph.graph import Graph
from dtfzmq.graph.scopes import device
from dtfzmq.ops import constants, families  # noqa: F401  # declares every op
from dtfzmq.train.device_setter import (
    GreedyLoadBalancingStrategy,
    RoundRobinStrategy,
    byte_size_load_fn,
    replica_device_setter,
)
from dtfzmq.train.optimizers import MomentumOptimizer
from dtfzmq.variables.variable import Variable

CLUSTER = ClusterSpec({"ps": ["h:1", "h:2"], "worker": ["h:3", "h:4"]})


@pytest.fixture(autouse=True)
def graph() -> Iterator[Graph]:
    with Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("cluster", [CLUSTER, CLUSTER.as_cluster_def(), CLUSTER.as_dict()])
def test_variables_go_round_the_ps_tasks_and_the_rest_to_the_worker(cluster: object) -> None:
    with device(replica_device_setter(cluster=cluster, worker_device="/job:worker/task:1")):
        variables = [Variable(float(i)) for i in range(3)]
        c = constants.constant(1.0)
    assert [v.device for v in variables] == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0"]
    assert [v.initializer.device for v in variables] == [v.device for v in variables]
    assert c.device == "/job:worker/task:1"
    assert variables[1].value().device == "/job:ps/task:1"


def test_ps_tasks_by_number() -> None:
    with device(replica_device_setter(ps_tasks=1)):
        assert Variable(0.0).device == "/job:ps/task:0"
        assert constants.constant(0.0).device == "/job:worker"


def test_no_ps_means_no_function() -> None:
    assert replica_device_setter() is None
    assert replica_device_setter(cluster={"worker": ["h:1"]}) is None


def test_what_the_program_asks_for_wins_field_by_field() -> None:
    with device(replica_device_setter(cluster=CLUSTER)):
        with device("/job:ps/task:1"):
            pinned = Variable(0.0)
            add = constants.constant(0.0)
        with device("/gpu:0"):
            typed = constants.constant(0.0)
    assert pinned.device == "/job:ps/task:1"
    assert add.device == "/job:ps/task:1"
    assert typed.device == "/job:worker/device:GPU:0"


def test_a_ps_device_with_a_type() -> None:
    with device(replica_device_setter(cluster=CLUSTER, ps_device="/job:ps/cpu:0")):
        assert Variable(0.0).device == "/job:ps/task:0/device:CPU:0"


def test_without_merging_an_asked_device_is_left_alone() -> None:
    with device(replica_device_setter(cluster=CLUSTER, merge_devices=False)), device("/gpu:0"):
        assert constants.constant(0.0).device == "/device:GPU:0"


def test_other_op_types_on_the_ps() -> None:
    with device(replica_device_setter(cluster=CLUSTER, ps_ops=["Const"])):
        assert constants.constant(0.0).device == "/job:ps/task:0"
    with pytest.raises(TypeError, match="ps_ops must be a list"):
        replica_device_setter(cluster=CLUSTER, ps_ops="Const")


def test_greedy_balances_bytes() -> None:
    greedy = GreedyLoadBalancingStrategy(2, byte_size_load_fn)
    with device(replica_device_setter(cluster=CLUSTER, ps_strategy=greedy)):
        big = Variable(np.zeros((100, 10), "float32"))
        small = [Variable(np.zeros(100, "float32")) for _ in range(10)]
    assert big.device == "/job:ps/task:0"
    assert [v.device for v in small] == ["/job:ps/task:1"] * 10
    assert greedy._ps_loads == [4000.0, 4000.0]


def test_twenty_variables_and_a_big_matrix_stay_in_balance() -> None:
    greedy = GreedyLoadBalancingStrategy(4, byte_size_load_fn)
    cluster = {"ps": [f"h:{i}" for i in range(4)], "worker": ["h:9"]}
    with device(replica_device_setter(cluster=cluster, ps_strategy=greedy)):
        for part in range(8):
            Variable(np.zeros((128, 64), "float32"), name=f"part_{part}")
        for number in range(20):
            Variable(np.zeros(64 + number, "float32"))
    assert max(greedy._ps_loads) / min(greedy._ps_loads) <= 1.2


def test_strategies_are_functions_of_the_op() -> None:
    turn = RoundRobinStrategy(3)
    op = constants.constant(0.0).op
    assert [turn(op) for _ in range(4)] == [0, 1, 2, 0]
    with pytest.raises(TypeError, match="ps_strategy must be callable"):
        replica_device_setter(cluster=CLUSTER, ps_strategy=3)  # type: ignore[arg-type]  # on purpose


def test_slots_stand_beside_their_variable() -> None:
    with device(replica_device_setter(cluster=CLUSTER)):
        v, w = Variable(1.0, name="v"), Variable(2.0, name="w")
        optimizer = MomentumOptimizer(0.1, 0.9)
        train = optimizer.minimize(v * w)
    for variable in (v, w):
        slot = optimizer.get_slot(variable, "momentum")
        assert slot is not None and slot.device == variable.device
    updates = {op.name: op.device for op in v.graph.get_operations() if op.type == "ApplyMomentum"}
    assert updates == {"Momentum/update_v/ApplyMomentum": v.device, "Momentum/update_w/ApplyMomentum": w.device}
    assert train.name == "Momentum"
