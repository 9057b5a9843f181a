"""A character language model: an LSTM over time learns this file, on two workers with the weights on a ps.

    dtfzmq run --ps 1 --workers 2 --ps-runs script -- python examples/lstm_lm.py \
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
flags.DEFINE_integer("train_steps", 160, "how many updates in all")
FLAGS = flags.FLAGS
UNITS, ROWS, TIME = 96, 16, 24


def main(_: list[str]) -> None:
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    alphabet, text = np.unique(np.frombuffer(Path(__file__).read_bytes(), np.uint8), return_inverse=True)

    device = f"/job:worker/task:{FLAGS.task_index}"
    with tf.device(tf.train.replica_device_setter(worker_device=device, cluster=cluster)):
        x, y = tf.placeholder(tf.int32, [ROWS, TIME]), tf.placeholder(tf.int32, [ROWS, TIME])
        cell = tf.nn.rnn_cell.BasicLSTMCell(UNITS)
        first = cell.zero_state(ROWS, tf.float32)
        table = tf.get_variable("embedding", [len(alphabet), 32])
        outputs, last = tf.nn.dynamic_rnn(cell, tf.nn.embedding_lookup(table, x), initial_state=first)
        logits = tf.layers.dense(outputs, len(alphabet))
        loss = tf.contrib.seq2seq.sequence_loss(logits, y, tf.ones([ROWS, TIME]))
        global_step = tf.train.get_or_create_global_step()
        optimizer = tf.train.AdamOptimizer(0.01)
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        clipped, _norm = tf.clip_by_global_norm(gradients, 5.0)
        train = optimizer.apply_gradients(zip(clipped, variables), global_step=global_step)
        missing = tf.report_uninitialized_variables()
        initialize = tf.global_variables_initializer()

    random = np.random.RandomState(FLAGS.task_index)
    with tf.Session(server.target, config=tf.ConfigProto(device_filters=["/job:ps", device])) as session:
        if FLAGS.task_index == 0:
            session.run(initialize)
        while len(session.run(missing)):
            time.sleep(0.1)  # the chief is about to initialise them
        step, losses = 0, []
        while step < FLAGS.train_steps:
            starts = random.randint(len(text) - 4 * TIME, size=ROWS)
            state = session.run(first)
            for _part in range(3):  # three pieces one after the other, the state carried over
                rows = np.stack([text[s : s + TIME + 1] for s in starts])
                feed = {x: rows[:, :-1], y: rows[:, 1:], first: state}
                _, step, value, state = session.run([train, global_step, loss, last], feed)
                losses.append(value)
                starts += TIME
        before, now = np.exp(losses[0]), np.exp(np.mean(losses[-12:]))
        print(f"worker {FLAGS.task_index}: step {step}, perplexity {before:.1f} at first, {now:.2f} now")


if __name__ == "__main__":
    tf.app.run()
