"""Replicas of a digit classifier, asynchronous, or (--sync_replicas) one update for the mean gradient of all workers.

    dtfzmq run --ps 1 --workers 2 --ps-runs script -- python examples/mnist_replica.py --sync_replicas \
        --ps_hosts {ps_hosts} --worker_hosts {worker_hosts} --job_name {job_name} --task_index {task_index}
"""

import time
from pathlib import Path

import numpy as np

import dtfzmq as tf

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", None, "host:port of each ps, with commas")
flags.DEFINE_string("worker_hosts", None, "host:port of each worker, with commas")
flags.DEFINE_string("job_name", None, "ps or worker")
flags.DEFINE_integer("task_index", None, "which of the job's tasks this is")
flags.DEFINE_integer("train_steps", 300, "how many updates in all")
flags.DEFINE_integer("batch_size", 64, "how many digits a worker takes for a gradient")
flags.DEFINE_float("learning_rate", 0.005, "of Adam")
flags.DEFINE_boolean("sync_replicas", False, "one update for the mean gradient of all workers")
FLAGS = flags.FLAGS


def digits() -> tuple[np.ndarray, np.ndarray]:
    data = np.loadtxt(Path(__file__).parent / "data" / "digits.csv.gz", delimiter=",", dtype=np.float32)
    np.random.RandomState(0).shuffle(data)
    return data[:, :64] / 16, data[:, 64].astype(np.int64)


def main(_: list[str]) -> None:
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    workers, is_chief = cluster.num_tasks("worker"), FLAGS.task_index == 0

    device = f"/job:worker/task:{FLAGS.task_index}"
    with tf.device(tf.train.replica_device_setter(worker_device=device, cluster=cluster)):
        x, y = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
        logits = tf.layers.dense(tf.layers.dense(x, 100, activation=tf.nn.relu, name="hidden"), 10, name="output")
        loss = tf.losses.sparse_softmax_cross_entropy(labels=y, logits=logits)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
        global_step = tf.train.get_or_create_global_step()
        optimizer: tf.train.Optimizer = tf.train.AdamOptimizer(FLAGS.learning_rate)
        if FLAGS.sync_replicas:
            optimizer = replicas = tf.train.SyncReplicasOptimizer(optimizer, workers, total_num_replicas=workers)
        train = optimizer.minimize(loss, global_step=global_step)
        missing = tf.report_uninitialized_variables(tf.global_variables())
        tokens = replicas.get_init_tokens_op() if FLAGS.sync_replicas else None
        initialize = tf.global_variables_initializer()

    images, labels = digits()
    held_out, random = len(images) // 5, np.random.RandomState(FLAGS.task_index)
    config = tf.ConfigProto(device_filters=["/job:ps", device])
    with tf.Session(server.target, config=config) as session:
        if is_chief:
            session.run(initialize)
        while len(session.run(missing)):
            time.sleep(0.1)  # the chief is about to initialise them
        coord = tf.train.Coordinator()
        if FLAGS.sync_replicas:
            session.run(replicas.chief_init_op if is_chief else replicas.local_step_init_op)
            if is_chief:
                replicas.get_chief_queue_runner().create_threads(session, coord, daemon=True, start=True)
                session.run(tokens)
        step = mine = 0
        while step < FLAGS.train_steps:
            rows = random.randint(held_out, len(images), FLAGS.batch_size)
            _, step = session.run([train, global_step], {x: images[rows], y: labels[rows]})
            mine += 1
        right = session.run(accuracy, {x: images[:held_out], y: labels[:held_out]})
        print(f"worker {FLAGS.task_index}: global step {step}, {mine} by me, held-out accuracy {right:.2%}")
        coord.request_stop()


if __name__ == "__main__":
    tf.app.run()
