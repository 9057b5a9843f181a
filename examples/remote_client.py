"""A client outside the cluster trains a model whose weights lie on two ps and whose layers run on a worker.

    dtfzmq run --ps 2 --workers 1 --workers-run serve -- python examples/remote_client.py --target {target}

or three shells with `dtfzmq serve`, as the README shows, but with this cluster, and the client in a fourth:

    --cluster "ps=localhost:2222,localhost:2223;worker=localhost:2224"
    python examples/remote_client.py --target zmq://localhost:2224
"""

import argparse
import sys

import numpy as np

import dtfzmq as tf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="zmq://localhost:2224")
    parser.add_argument("--steps", type=int, default=300)
    flags = parser.parse_args()

    random = np.random.RandomState(0)
    points = random.uniform(-1, 1, (256, 2)).astype(np.float32)
    inside = (np.square(points).sum(axis=1) < 0.5).astype(np.int64)

    with tf.device("/job:ps/task:0"):
        w1 = tf.Variable(tf.random_normal([2, 32], stddev=0.5, seed=1), name="w1")
        b1 = tf.Variable(tf.zeros([32]), name="b1")
    with tf.device("/job:ps/task:1"):
        w2 = tf.Variable(tf.random_normal([32, 2], stddev=0.5, seed=2), name="w2")
        b2 = tf.Variable(tf.zeros([2]), name="b2")
    with tf.device("/job:worker/task:0"):
        x = tf.placeholder(tf.float32, [None, 2])
        y = tf.placeholder(tf.int64, [None])
        hidden = tf.tanh(tf.matmul(x, w1) + b1)
        logits = tf.matmul(hidden, w2) + b2
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        correct = tf.equal(tf.argmax(logits, 1), y)
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))

    with tf.Session(flags.target) as session:
        session.run(tf.global_variables_initializer())
        for step in range(flags.steps):
            _, value = session.run([train, loss], {x: points, y: inside})
            if step % 100 == 0:
                print(f"step {step}: loss {value:.3f}")
        value, right = session.run([loss, accuracy], {x: points, y: inside})
        print(f"after {flags.steps} steps: loss {value:.3f}, accuracy {right:.3f}")


if __name__ == "__main__":
    try:
        main()
    except tf.errors.UnavailableError as error:
        sys.exit(error.message)
