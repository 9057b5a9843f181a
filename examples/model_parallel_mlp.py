"""A network too large for one task: each worker holds the weights of one layer, and computes it and its gradients.

    dtfzmq run --ps 0 --workers 3 --workers-run serve -- \
        python examples/model_parallel_mlp.py --target {target} --worker_hosts {worker_hosts}

What crosses the wire are activations and their gradients; weights never do.
"""

from pathlib import Path

import numpy as np

import dtfzmq as tf

flags = tf.app.flags
flags.DEFINE_string("target", "", "the worker to talk to")
flags.DEFINE_string("worker_hosts", "", "host:port of each worker, with commas")
flags.DEFINE_integer("train_steps", 300, "how many updates")
FLAGS = flags.FLAGS


def main(_: list[str]) -> None:
    workers = len(FLAGS.worker_hosts.split(","))
    data = np.loadtxt(Path(__file__).parent / "data" / "digits.csv.gz", delimiter=",", dtype=np.float32)
    random = np.random.RandomState(0)
    random.shuffle(data)
    images, labels = data[:, :64] / 16, data[:, 64].astype(np.int64)
    held_out = len(data) // 5

    with tf.device("/job:worker/task:0"):
        x, y = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
    layer = x
    for index in range(workers):
        with tf.device(f"/job:worker/task:{index}"):
            last = index == workers - 1
            layer = tf.layers.dense(layer, 10 if last else 128, activation=None if last else tf.nn.relu)
    with tf.device(f"/job:worker/task:{workers - 1}"):
        loss = tf.losses.sparse_softmax_cross_entropy(labels=y, logits=layer)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(layer, 1), y), tf.float32))
        global_step = tf.train.get_or_create_global_step()
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, global_step, colocate_gradients_with_ops=True)
    for variable in tf.trainable_variables():
        print(f"{variable.op.name} on {variable.device}")

    with tf.Session(FLAGS.target) as session:
        session.run(tf.global_variables_initializer())
        for _step in range(FLAGS.train_steps):
            rows = random.randint(held_out, len(data), 64)
            session.run(train, {x: images[rows], y: labels[rows]})
        right = session.run(accuracy, {x: images[:held_out], y: labels[:held_out]})
        print(f"{workers} layers on {workers} workers, step {session.run(global_step)}: held-out accuracy {right:.2%}")


if __name__ == "__main__":
    tf.app.run()
