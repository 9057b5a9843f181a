"""Between-graph replication, synchronous: a step averages one gradient of every worker, exactly.

    dtfzmq run --ps 1 --workers 2 --ps-runs script -- python examples/between_graph_sync.py \
        --ps_hosts {ps_hosts} --worker_hosts {worker_hosts} --job_name {job_name} --task_index {task_index}

Gradients meet in an accumulator on the ps, which drops those of an older step. A worker begins a step when it gets its
token for it, from a queue of its own; the chief hands tokens out once the step before is done.
"""

import argparse
import threading
import time

import dtfzmq as tf


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ps_hosts", required=True)
    parser.add_argument("--worker_hosts", required=True)
    parser.add_argument("--job_name", required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--steps", type=int, default=10)
    flags = parser.parse_args()

    cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
    if flags.job_name == "ps":
        server.join()
        return

    workers, me = cluster.num_tasks("worker"), flags.task_index
    with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{me}", cluster=cluster)):
        weights = tf.Variable(tf.zeros([2]), name="weights")
        global_step = tf.train.get_or_create_global_step()
        target = tf.constant([2.0 * me, 4.0 * me + 4.0])  # each worker pulls the weights to a place of its own
        loss = tf.reduce_sum(tf.square(weights - target)) / 2
        gradient = tf.gradients(loss, [weights])[0]
    with tf.device("/job:ps/task:0"):
        sums = tf.ConditionalAccumulator(tf.float32, shape=[2], shared_name="gradients")
        queues = [tf.FIFOQueue(-1, tf.int64, shapes=[()], shared_name=f"tokens_{i}") for i in range(workers)]
        token = tf.placeholder(tf.int64, [])
        hand_in = sums.apply_grad(gradient, local_step=token)
        next_token = queues[me].dequeue()
        update = tf.train.GradientDescentOptimizer(0.5).apply_gradients(
            [(sums.take_grad(workers), weights)], global_step=global_step
        )
        with tf.control_dependencies([update]):
            step = tf.identity(global_step)
            advance = sums.set_global_step(step)
        with tf.control_dependencies([advance]):
            release = tf.group(*[queue.enqueue(tf.cast(step, tf.int64)) for queue in queues])
        first = tf.group(*[queue.enqueue(tf.constant(0, tf.int64)) for queue in queues])

    with tf.Session(server.target) as session:
        if me == 0:
            session.run(tf.global_variables_initializer())
            session.run(first)
            chief = threading.Thread(target=lambda: [session.run(release) for _ in range(flags.steps)])
            chief.start()
        while len(session.run(tf.report_uninitialized_variables())):
            time.sleep(0.1)
        for _ in range(flags.steps):
            session.run(hand_in, {token: session.run(next_token)})
        if me == 0:
            chief.join()
            found, steps = session.run([weights, global_step])
            mean = [workers - 1.0, 2.0 * (workers - 1) + 4.0]
            exact = [place * (1 - 0.5**flags.steps) for place in mean]
            equal = found.tolist() == exact
            print(f"after {steps} steps: weights {found.tolist()}, mean-gradient result {exact}, equal: {equal}")
    server.stop()


if __name__ == "__main__":
    main()
