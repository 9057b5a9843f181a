"""Between-graph replication, asynchronous: each worker is a process with a graph and a pace of its own.

    dtfzmq run --ps 2 --workers 2 --ps-runs script -- python examples/between_graph_async.py \
        --ps_hosts {ps_hosts} --worker_hosts {worker_hosts} --job_name {job_name} --task_index {task_index}
"""

import argparse
import time

import numpy as np

import dtfzmq as tf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ps_hosts", required=True)
    parser.add_argument("--worker_hosts", required=True)
    parser.add_argument("--job_name", required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--steps", type=int, default=400)
    flags = parser.parse_args()

    cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
    if flags.job_name == "ps":
        server.join()
        return

    me = f"/job:worker/task:{flags.task_index}"
    with tf.device(tf.train.replica_device_setter(worker_device=me, cluster=cluster)):
        x = tf.placeholder(tf.float32, [None, 3])
        y = tf.placeholder(tf.float32, [None, 1])
        weights = tf.Variable(tf.zeros([3, 1]), name="weights")
        bias = tf.Variable(tf.zeros([1]), name="bias")
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) + bias - y))
        global_step = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=global_step)
        initialize = tf.global_variables_initializer()
        missing = tf.report_uninitialized_variables()

    random = np.random.RandomState(flags.task_index)
    truth = np.array([[1.0], [-2.0], [0.5]], np.float32)
    with tf.Session(server.target) as session:
        if flags.task_index == 0:
            session.run(initialize)
        while len(session.run(missing)):
            time.sleep(0.1)  # the chief is about to initialise them
        step = 0
        while step < flags.steps:
            inputs = random.standard_normal((32, 3)).astype(np.float32)
            _, step, value = session.run([train, global_step, loss], {x: inputs, y: inputs @ truth + 3.0})
        found = session.run([weights, bias])
        print(f"worker {flags.task_index}: global step {step}, loss {value:.6f}, weights "
              f"{found[0].ravel().round(2).tolist()}, bias {found[1].round(2).tolist()}")
    server.stop()


if __name__ == "__main__":
    main()
