"""Embeddings on parameter servers: rows travel, not tables, and sparse training equals dense training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from tests.kit.servers import start

TABLE = np.arange(20, dtype="float32").reshape(10, 2)
IDS = np.array([[0, 9], [4, 9], [9, 5]], "int32")

OPTIMIZERS: list[Callable[[], Any]] = [
    lambda: tf.train.GradientDescentOptimizer(0.5),
    lambda: tf.train.AdagradOptimizer(0.5),
    lambda: tf.train.MomentumOptimizer(0.5, 0.9),
]


def dense_result(make: Callable[[], Any], steps: int) -> np.ndarray:
    """The same training with one matrix and one-hot rows, in this process."""
    hot = np.eye(10, dtype="float32")[IDS]
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.Variable(TABLE)
        rows = tf.matmul(tf.constant(hot.reshape(-1, 10)), table)
        train = make().minimize(tf.reduce_sum(tf.square(rows)))
        session.run(tf.global_variables_initializer())
        for _ in range(steps):
            session.run(train)
        return np.asarray(session.run(table))


@pytest.mark.parametrize("make", OPTIMIZERS, ids=["sgd", "adagrad", "momentum"])
def test_sparse_training_of_a_partitioned_table_equals_dense_training(make: Callable[[], Any]) -> None:
    # momentum moves rows without a gradient too, in dense training: compare one step of it
    steps = 1 if make is OPTIMIZERS[2] else 3
    with start({"ps": 2, "worker": 1}) as servers:
        cluster = servers["ps:0"].server_def.cluster
        with tf.Graph().as_default() as graph:
            setter = tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:0")
            with tf.device(setter):
                table = tf.get_variable("table", initializer=TABLE, partitioner=tf.fixed_size_partitioner(2))
                rows = tf.nn.embedding_lookup(table, tf.constant(IDS), partition_strategy="div")
                train = make().minimize(tf.reduce_sum(tf.square(rows)))
                whole, initialize = tf.convert_to_tensor(table), tf.global_variables_initializer()
        assert [part.device for part in table] == ["/job:ps/task:0", "/job:ps/task:1"]
        assert rows.get_shape().as_list() == [3, 2, 2]
        with tf.Session(servers["worker:0"].target, graph=graph) as session:
            session.run(initialize)
            np.testing.assert_array_equal(session.run(rows), TABLE[IDS])
            metadata = tf.RunMetadata()
            for _ in range(steps):
                session.run(
                    train, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata
                )
            np.testing.assert_allclose(session.run(whole), dense_result(make, steps), rtol=1e-5)
    sent = {
        name.split(":")[0]
        for part in metadata.partition_graphs
        for node in part.node
        if node.op == "_Send"
        for name in node.input
    }
    assert not {name for name in sent if name.endswith("/read")}, "a table crossed to another task"
