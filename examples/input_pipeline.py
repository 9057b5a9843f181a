"""An input pipeline of queues: examples from files of records, shuffled into batches while a local server trains.

    python examples/input_pipeline.py

It writes the files of synthetic examples itself, and reads them three times over.
"""

import os
import tempfile

import numpy as np

import dtfzmq as tf

TRUTH = np.array([2.0, -1.0, 0.5], np.float32)
FILES, EACH, EPOCHS, BATCH = 3, 200, 3, 20


def write(folder: str) -> list[str]:
    random = np.random.RandomState(0)
    paths = [os.path.join(folder, f"part-{i}.tfrecords") for i in range(FILES)]
    for path in paths:
        with tf.python_io.TFRecordWriter(path) as writer:
            for x in random.standard_normal((EACH, 3)):
                features = {
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                    "y": tf.train.Feature(float_list=tf.train.FloatList(value=[float(x @ TRUTH) + 3.0])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString())
    return paths


def batches(paths: list[str]) -> tuple[tf.Tensor, tf.Tensor]:
    names = tf.train.string_input_producer(paths, num_epochs=EPOCHS, seed=1)
    _, serialized = tf.TFRecordReader().read(names)
    wanted = {"x": tf.FixedLenFeature([3], tf.float32), "y": tf.FixedLenFeature([], tf.float32)}
    found = tf.parse_single_example(serialized, wanted)
    x, y = tf.train.shuffle_batch([found["x"], found["y"]], BATCH, capacity=300, min_after_dequeue=100, num_threads=2)
    return x, y


def main() -> None:
    server = tf.train.Server.create_local_server()
    with tempfile.TemporaryDirectory() as folder:
        x, y = batches(write(folder))
        weights = tf.Variable(tf.zeros([3]), name="weights")
        bias = tf.Variable(0.0, name="bias")
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(x * weights, axis=1) + bias - y))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session(server.target) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(session, coordinator)
            steps, value = 0, 0.0
            try:
                while not coordinator.should_stop():
                    _, value = session.run([train, loss])
                    steps += 1
            except tf.errors.OutOfRangeError:
                print(f"{EPOCHS} epochs are over after {steps} steps, loss {value:.6f}")
            finally:
                coordinator.request_stop()
            coordinator.join(threads)
            print("weights", np.round(session.run(weights), 2), "bias", round(float(session.run(bias)), 2))
    server.stop()


if __name__ == "__main__":
    main()
