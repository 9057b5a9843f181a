"""ClusterSpec and ServerDef: TF1's forms, equality and error texts."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dtfzmq.cluster.config import ConfigProto, GPUOptions, GraphOptions, OptimizerOptions
from dtfzmq.cluster.spec import ClusterDef, ClusterSpec, JobDef, ServerDef, as_server_def

DENSE = {"ps": ["h:1"], "worker": ["h:2", "h:3"]}


@pytest.mark.parametrize(
    "form",
    [
        DENSE,
        {"ps": {0: "h:1"}, "worker": {0: "h:2", 1: "h:3"}},
        ClusterSpec(DENSE),
        ClusterSpec(DENSE).as_cluster_def(),
    ],
)
def test_every_form_is_the_same_cluster(form):
    spec = ClusterSpec(form)
    assert spec == ClusterSpec(DENSE)
    assert hash(spec) == hash(ClusterSpec(DENSE))
    assert spec.as_dict() == DENSE
    assert spec.jobs == ["ps", "worker"]


def test_sparse_job_keeps_its_holes():
    spec = ClusterSpec({"worker": {1: "h:3", 4: "h:5"}})
    assert spec.as_dict() == {"worker": {1: "h:3", 4: "h:5"}}
    assert spec.job_tasks("worker") == [None, "h:3", None, None, "h:5"]
    assert spec.num_tasks("worker") == 2
    assert spec.task_indices("worker") == [1, 4]
    assert spec.task_address("worker", 4) == "h:5"


def test_unknown_names_say_which():
    spec = ClusterSpec(DENSE)
    with pytest.raises(ValueError, match="No such job in cluster: 'x'"):
        spec.num_tasks("x")
    with pytest.raises(ValueError, match="No task with index 7 in job 'ps'"):
        spec.task_address("ps", 7)


@pytest.mark.parametrize("bad", [None, 7, ["h:1"], {"ps": "h:1"}, {"ps": {"a": "h:1"}}, {"ps": [3]}, {3: ["h:1"]}])
def test_what_is_no_cluster_is_a_type_error(bad):
    with pytest.raises(TypeError):
        ClusterSpec(bad)


@pytest.mark.parametrize("job", ["a/b", "9a", "a b", "a:b", "ünïcode", "作业", "-a", "a\n"])
def test_a_job_that_no_device_can_name_is_refused(job):
    with pytest.raises(ValueError, match="No device can name a job"):
        ClusterSpec({job: ["localhost:2222"]})
    assert ClusterSpec({"_a-b.c9": ["localhost:2222"]}).jobs == ["_a-b.c9"]


def test_empty_spec_is_false_and_equality_is_by_content():
    assert not ClusterSpec({})
    assert ClusterSpec(DENSE) != ClusterSpec({"ps": ["h:1"]})
    assert ClusterSpec(DENSE) != DENSE


def test_cluster_def_is_built_like_the_message():
    cluster = ClusterDef()
    job = cluster.job.add()
    job.name = "ps"
    job.tasks[0] = "h:1"
    cluster.job.add(name="worker").tasks[2] = "h:9"
    assert ClusterSpec(cluster).as_dict() == {"ps": ["h:1"], "worker": {2: "h:9"}}
    assert cluster == ClusterDef(job=[JobDef(name="ps", tasks={0: "h:1"}), JobDef(name="worker", tasks={2: "h:9"})])


def test_server_def_from_each_form():
    for form in (DENSE, ClusterSpec(DENSE), ClusterSpec(DENSE).as_cluster_def()):
        made = as_server_def(form, "worker", 1)
        assert (made.job_name, made.task_index, made.protocol) == ("worker", 1, "zmq")
        assert ClusterSpec(made.cluster) == ClusterSpec(DENSE)
    given = ServerDef(cluster=ClusterSpec(DENSE).as_cluster_def(), protocol="grpc", job_name="ps", task_index=0)
    assert as_server_def(given) == given
    assert as_server_def(given, "worker", 1).job_name == "worker"
    assert given.job_name == "ps"


def test_job_and_task_may_be_left_out_where_there_is_one():
    assert as_server_def({"local": ["h:1"]}).job_name == "local"
    assert as_server_def(DENSE, "ps").task_index == 0
    with pytest.raises(ValueError, match="Must specify an explicit `job_name`"):
        as_server_def(DENSE)
    with pytest.raises(ValueError, match="Must specify an explicit `task_index`"):
        as_server_def(DENSE, "worker")
    with pytest.raises(TypeError, match="Could not convert"):
        as_server_def(cast(Any, 5))


def test_config_takes_tf1_fields_and_refuses_others():
    config = ConfigProto(
        log_device_placement=True,
        device_filters=["/job:ps"],
        device_count={"CPU": 2},
        gpu_options=GPUOptions(per_process_gpu_memory_fraction=0.5),
        graph_options=GraphOptions(optimizer_options=OptimizerOptions(opt_level=OptimizerOptions.L0)),
    )
    config.gpu_options.allow_growth = True
    config.operation_timeout_in_ms = 7
    config.device_filters.append("/job:worker/task:1")
    config.device_count["GPU"] = 0
    assert config.graph_options.optimizer_options.opt_level == -1
    assert config.to_plain() == {
        "log_device_placement": True,
        "device_filters": ["/job:ps", "/job:worker/task:1"],
        "device_count": {"CPU": 2, "GPU": 0},
        "gpu_options": {"per_process_gpu_memory_fraction": 0.5, "allow_growth": True},
        "graph_options": {"optimizer_options": {"opt_level": -1}},
        "operation_timeout_in_ms": 7,
    }
    with pytest.raises(ValueError, match='Protocol message ConfigProto has no "foo" field'):
        ConfigProto(foo=1)
    with pytest.raises(AttributeError, match='no field "foo"'):
        config.foo = 1
    with pytest.raises(AttributeError, match="repeated field"):
        config.device_filters = []
    with pytest.raises(TypeError, match="allow_soft_placement"):
        ConfigProto(allow_soft_placement="yes")


def test_records_merge_copy_and_clear():
    one, two = ConfigProto(allow_soft_placement=True), ConfigProto(device_filters=["/job:a"])
    one.MergeFrom(two)
    assert one.allow_soft_placement and one.device_filters == ["/job:a"]
    twin = ConfigProto()
    twin.CopyFrom(one)
    twin.device_filters.append("/job:b")
    assert one.device_filters == ["/job:a"] and twin != one
    assert twin.HasField("allow_soft_placement") and not twin.HasField("cluster_def")
    twin.ClearField("allow_soft_placement")
    assert twin.allow_soft_placement is False
