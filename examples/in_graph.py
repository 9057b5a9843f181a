"""In-graph replication: one client's graph holds a tower for each worker; their mean gradient moves the one model.

    dtfzmq run --ps 1 --workers 2 --workers-run serve -- \
        python examples/in_graph.py --target {target} --worker_hosts {worker_hosts}
"""

import argparse

import numpy as np

import dtfzmq as tf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--worker_hosts", required=True)
    parser.add_argument("--steps", type=int, default=100)
    flags = parser.parse_args()
    workers = len(flags.worker_hosts.split(","))

    with tf.device("/job:ps/task:0"):
        weights = tf.Variable(tf.zeros([3, 1]), name="weights")
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        y = tf.placeholder(tf.float32, [None, 1], name="y")

    optimizer = tf.train.GradientDescentOptimizer(0.1)
    towers = []
    for index in range(workers):
        with tf.device(f"/job:worker/task:{index}"), tf.name_scope(f"tower_{index}"):
            # Tower i takes each row whose number is i modulo the number of towers.
            mine = tf.equal(tf.range(tf.shape(x)[0]) % workers, index)
            share = tf.reshape(tf.cast(mine, tf.float32), [-1, 1])
            error = (tf.matmul(x, weights) - y) * share
            loss = tf.reduce_sum(tf.square(error)) / tf.reduce_sum(share)
            towers.append((loss, tf.gradients(loss, [weights])[0]))
    with tf.device("/job:ps/task:0"):
        mean_gradient = tf.add_n([gradient for _, gradient in towers]) / float(workers)
        mean_loss = tf.add_n([loss for loss, _ in towers]) / float(workers)
        train = optimizer.apply_gradients([(mean_gradient, weights)])

    random = np.random.RandomState(0)
    truth = np.array([[1.0], [-2.0], [0.5]], np.float32)
    inputs = random.standard_normal((200, 3)).astype(np.float32)
    with tf.Session(flags.target) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(flags.steps):
            _, value = session.run([train, mean_loss], {x: inputs, y: inputs @ truth})
        print(f"loss {value:.6f}, weights {session.run(weights).ravel().round(3).tolist()}")


if __name__ == "__main__":
    main()
