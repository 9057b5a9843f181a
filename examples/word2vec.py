"""Word vectors by skip-grams: the table lies in parts on all ps, and only the rows in use cross the wire, both ways.

    dtfzmq run --ps 2 --workers 2 --ps-runs script -- python examples/word2vec.py \
        --ps_hosts {ps_hosts} --worker_hosts {worker_hosts} --job_name {job_name} --task_index {task_index}

The language is made up: a sentence is about one of 10 topics. Words of a topic should end up near each other.
"""

import time

import numpy as np

import dtfzmq as tf

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", None, "host:port of each ps, with commas")
flags.DEFINE_string("worker_hosts", None, "host:port of each worker, with commas")
flags.DEFINE_string("job_name", None, "ps or worker")
flags.DEFINE_integer("task_index", None, "which of the job's tasks this is")
flags.DEFINE_integer("train_steps", 700, "how many updates in all")
FLAGS = flags.FLAGS
TOPICS, WORDS, SIZE, BATCH = 10, 500, 32, 128


def skip_grams(random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of words that stand near each other: word w is about topic w % TOPICS."""
    topics = random.randint(TOPICS, size=(BATCH, 1))
    pairs = random.randint(WORDS // TOPICS, size=(BATCH, 2)) * TOPICS + topics
    return pairs[:, 0], pairs[:, 1:]


def main(_: list[str]) -> None:
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()

    device = f"/job:worker/task:{FLAGS.task_index}"
    parts = tf.fixed_size_partitioner(cluster.num_tasks("ps"))
    with tf.device(tf.train.replica_device_setter(worker_device=device, cluster=cluster)):
        centers, contexts = tf.placeholder(tf.int64, [BATCH]), tf.placeholder(tf.int64, [BATCH, 1])
        with tf.variable_scope("words", partitioner=parts):
            table = tf.get_variable("table", [WORDS, SIZE], initializer=tf.random_uniform_initializer(-0.5, 0.5))
            weights = tf.get_variable("nce_weights", [WORDS, SIZE], initializer=tf.truncated_normal_initializer(0, 0.2))
            biases = tf.get_variable("nce_biases", [WORDS], initializer=tf.zeros_initializer())
        near = tf.nn.embedding_lookup(table, centers, partition_strategy="div")
        loss = tf.reduce_mean(
            tf.nn.nce_loss(weights, biases, contexts, near, num_sampled=32, num_classes=WORDS, partition_strategy="div")
        )
        global_step = tf.train.get_or_create_global_step()
        optimizer = tf.train.AdagradOptimizer(1.0)
        pairs = optimizer.compute_gradients(loss)
        assert all(isinstance(gradient, tf.IndexedSlices) for gradient, _ in pairs)
        train = optimizer.apply_gradients(pairs, global_step=global_step)
        unit = tf.nn.l2_normalize(table, 1)
        nearest = tf.nn.top_k(tf.matmul(unit, unit, transpose_b=True), 4).indices
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
            first, second = skip_grams(random)
            _, step, value = session.run([train, global_step, loss], {centers: first, contexts: second})
        found = session.run(nearest)
        same = np.mean(found[:, 1:] % TOPICS == np.arange(WORDS)[:, None] % TOPICS)
        print(f"worker {FLAGS.task_index}: step {step}, loss {value:.3f}, neighbours of the same topic {same:.1%}")


if __name__ == "__main__":
    tf.app.run()
