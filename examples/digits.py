"""Train a small network on handwritten digits: weights on a ps, each batch split over the workers, a client outside.

    dtfzmq run --ps 1 --workers 2 --workers-run serve --status -- python examples/digits.py

The cluster comes from TF_CONFIG, which `dtfzmq run` sets. A fifth of the digits is held out of training.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

import dtfzmq as tf

STEPS, BATCH, HIDDEN = 1500, 128, 128


def progress(step: int, loss: float, accuracy: float) -> None:
    """One line that redraws itself on a terminal, a line now and then elsewhere."""
    bar = "#" * (30 * step // STEPS)
    line = f"[{bar:<30}] step {step:>4}  loss {loss:.4f}  held-out accuracy {accuracy:6.2%}"
    if sys.stdout.isatty():
        print("\r" + line, end="\n" if step == STEPS else "", flush=True)
    elif step % 250 == 0:
        print(line, flush=True)


def main() -> None:
    workers = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
    data = np.loadtxt(Path(__file__).parent / "data" / "digits.csv.gz", delimiter=",", dtype=np.float32)
    random = np.random.RandomState(0)
    random.shuffle(data)
    images, labels = data[:, :64] / 16, data[:, 64].astype(np.int64)
    held_out = len(data) // 5

    with tf.device("/job:ps/task:0"):
        starts = [tf.truncated_normal([64, HIDDEN], stddev=0.1, seed=1), tf.zeros([HIDDEN])]
        starts += [tf.truncated_normal([HIDDEN, 10], stddev=0.1, seed=2), tf.zeros([10])]
        weights = [tf.Variable(start) for start in starts]
        global_step = tf.train.get_or_create_global_step()
    inputs, losses, gradients = [], [], []
    for index in range(len(workers)):
        with tf.device(f"/job:worker/task:{index}"):
            x, y = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
            logits = tf.matmul(tf.nn.relu(tf.matmul(x, weights[0]) + weights[1]), weights[2]) + weights[3]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
            accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
            inputs.append((x, y))
            losses.append(loss)
            gradients.append(tf.gradients(loss, weights))
    with tf.device("/job:ps/task:0"):
        means = [tf.add_n(list(parts)) / float(len(workers)) for parts in zip(*gradients)]
        mean_loss = tf.add_n(losses) / float(len(workers))
        train = tf.train.GradientDescentOptimizer(0.5).apply_gradients(zip(means, weights), global_step=global_step)

    test = {inputs[-1][0]: images[:held_out], inputs[-1][1]: labels[:held_out]}
    with tf.Session("zmq://" + workers[0]) as session:
        session.run(tf.global_variables_initializer())
        begin = time.perf_counter()
        for step in range(STEPS + 1):
            feed: dict[tf.Tensor, np.ndarray] = {}
            for (x, y), rows in zip(inputs, np.split(random.randint(held_out, len(data), BATCH), len(workers))):
                feed[x], feed[y] = images[rows], labels[rows]
            _, value = session.run([train, mean_loss], feed)
            if step % 50 == 0:
                progress(step, value, session.run(accuracy, test))
        seconds = time.perf_counter() - begin
        steps, right = session.run([global_step, accuracy], test)
        print(f"{steps} steps in {seconds:.1f} s ({steps / seconds:.0f} steps/s), held-out accuracy {right:.2%}")
    if right < 0.95:
        sys.exit("the accuracy is below 95 %")


if __name__ == "__main__":
    main()
