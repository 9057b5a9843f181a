"""A convolutional network with batch normalization and dropout, on two workers with the weights on two ps.

    dtfzmq run --ps 2 --workers 2 --ps-runs script -- python examples/cnn.py \
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
flags.DEFINE_integer("train_steps", 200, "how many updates in all")
FLAGS = flags.FLAGS


def network(images: tf.Tensor, training: tf.Tensor) -> tf.Tensor:
    x = tf.reshape(images, [-1, 8, 8, 1])
    for filters in (16, 32):
        x = tf.layers.conv2d(x, filters, 3, padding="same", use_bias=False)
        x = tf.nn.relu(tf.layers.batch_normalization(x, momentum=0.9, training=training))
        x = tf.layers.max_pooling2d(x, 2, 2)
    x = tf.layers.dropout(tf.layers.flatten(x), rate=0.25, training=training)
    return tf.layers.dense(x, 10)


def main(_: list[str]) -> None:
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    data = np.loadtxt(Path(__file__).parent / "data" / "digits.csv.gz", delimiter=",", dtype=np.float32)
    np.random.RandomState(0).shuffle(data)
    images, labels = data[:, :64] / 16, data[:, 64].astype(np.int64)
    held_out = len(data) // 5

    device = f"/job:worker/task:{FLAGS.task_index}"
    with tf.device(tf.train.replica_device_setter(worker_device=device, cluster=cluster)):
        x, y = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
        training = tf.placeholder_with_default(False, [])
        logits = network(x, training)
        loss = tf.losses.sparse_softmax_cross_entropy(labels=y, logits=logits)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
        global_step = tf.train.get_or_create_global_step()
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train = tf.train.AdamOptimizer(0.005).minimize(loss, global_step=global_step)
        missing = tf.report_uninitialized_variables()
        initialize = tf.global_variables_initializer()

    random = np.random.RandomState(FLAGS.task_index)
    with tf.Session(server.target, config=tf.ConfigProto(device_filters=["/job:ps", device])) as session:
        if FLAGS.task_index == 0:
            session.run(initialize)
        while len(session.run(missing)):
            time.sleep(0.1)  # the chief is about to initialise them
        step = 0
        while step < FLAGS.train_steps:
            rows = random.randint(held_out, len(data), 64)
            _, step = session.run([train, global_step], {x: images[rows], y: labels[rows], training: True})
        right = session.run(accuracy, {x: images[:held_out], y: labels[:held_out]})
        print(f"worker {FLAGS.task_index}: global step {step}, held-out accuracy {right:.2%}")


if __name__ == "__main__":
    tf.app.run()
