"""Training that outlives lost tasks: hooks, checkpoints, and sessions that are made anew.

    dtfzmq run --ps 1 --workers 2 -- python examples/monitored_training.py --ps_hosts {ps_hosts} \
        --worker_hosts {worker_hosts} --task_index {task_index} --checkpoint_dir /tmp/monitored

Run it again with more `--steps`, and it goes on from its last checkpoint. A run amid which a ps was lost is done again
once the ps is back, from there too.
"""

import argparse

import numpy as np

import dtfzmq as tf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ps_hosts", required=True)
    parser.add_argument("--worker_hosts", required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--checkpoint_dir", required=True)
    parser.add_argument("--steps", type=int, default=200, help="where the global step is to end")
    flags = parser.parse_args()

    cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name="worker", task_index=flags.task_index)
    me = f"/job:worker/task:{flags.task_index}"
    with tf.device(tf.train.replica_device_setter(worker_device=me, cluster=cluster)):
        x = tf.placeholder(tf.float32, [None, 3])
        y = tf.placeholder(tf.float32, [None, 1])
        predicted = tf.layers.dense(x, 1, name="dense")
        loss = tf.reduce_mean(tf.square(predicted - y))
        tf.summary.scalar("loss", loss)
        global_step = tf.train.get_or_create_global_step()
        train = tf.train.AdamOptimizer(0.1).minimize(loss, global_step=global_step)

    random = np.random.RandomState(flags.task_index)
    truth = np.array([[1.0], [-2.0], [0.5]], np.float32)

    def batch() -> dict[tf.Tensor, np.ndarray]:
        inputs = random.standard_normal((32, 3)).astype(np.float32)
        return {x: inputs, y: inputs @ truth + 3.0}

    first = True
    with tf.train.MonitoredTrainingSession(
        server.target,
        is_chief=flags.task_index == 0,
        checkpoint_dir=flags.checkpoint_dir,
        save_checkpoint_steps=50,
        hooks=[tf.train.StopAtStepHook(last_step=flags.steps), tf.train.FeedFnHook(batch)],
        config=tf.ConfigProto(device_filters=["/job:ps", me]),
    ) as session:
        while not session.should_stop():
            _, step, value = session.run([train, global_step, loss])
            if first:
                print(f"worker {flags.task_index}: began at step {step}", flush=True)
                first = False
    print(f"worker {flags.task_index}: ended at step {step}, loss {value:.6f}", flush=True)


if __name__ == "__main__":
    main()
