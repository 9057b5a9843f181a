"""A cluster of one job, "local", with two tasks; task 0 computes a mean of which half is worked out on task 1.

    python examples/two_tasks.py --hosts localhost:2222,localhost:2223 --task_index 1     # in one shell
    python examples/two_tasks.py --hosts localhost:2222,localhost:2223 --task_index 0     # in another
"""

import argparse

import numpy as np

import dtfzmq as tf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", default="localhost:2222,localhost:2223")
    parser.add_argument("--task_index", type=int, required=True)
    flags = parser.parse_args()

    cluster = tf.train.ClusterSpec({"local": flags.hosts.split(",")})
    server = tf.train.Server(cluster, job_name="local", task_index=flags.task_index)
    if flags.task_index == 1:
        server.join()  # until Ctrl-C, SIGTERM or `dtfzmq shutdown localhost:2223`
        return

    x = tf.placeholder(tf.float32, [100])
    with tf.device("/job:local/task:1"):
        first_half = tf.reduce_mean(tf.slice(x, [0], [50]))
    with tf.device("/job:local/task:0"):
        second_half = tf.reduce_mean(tf.slice(x, [50], [-1]))
        mean = (first_half + second_half) / 2
    with tf.Session(server.target) as session:
        values = np.arange(100, dtype=np.float32)
        print("mean by two tasks:", session.run(mean, {x: values}), "by numpy:", values.mean())
    server.stop()


if __name__ == "__main__":
    main()
