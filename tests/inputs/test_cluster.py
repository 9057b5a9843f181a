"""Pipelines on real processes: files of a ps, examples that a worker parses, a session with another task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dtfzmq as tf
from tests.kit.cluster import Cluster


def write(folder: Path, count: int) -> list[str]:
    paths = [str(folder / f"{i}.records") for i in range(2)]
    for i, path in enumerate(paths):
        with tf.python_io.TFRecordWriter(path) as writer:
            for n in range(i * count, (i + 1) * count):
                feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[n]))
                example = tf.train.Example(features=tf.train.Features(feature={"n": feature}))
                writer.write(example.SerializeToString())
    return paths


@pytest.mark.slow
def test_files_of_a_ps_reach_a_worker_by_another_tasks_session(
    processes: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = processes({"ps": 1, "worker": 2})
    cluster.start_all()
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            names = tf.train.string_input_producer(write(tmp_path, 50), num_epochs=2, shuffle=False)
            reader = tf.TFRecordReader()
            _, serialized = reader.read(names)
            counts = [reader.num_records_produced(), reader.num_work_units_completed()]
        with tf.device("/job:worker/task:0"):
            parsed = tf.parse_single_example(serialized, {"n": tf.FixedLenFeature([], tf.int64)})
            got = tf.train.shuffle_batch(
                [parsed["n"], tf.as_string(parsed["n"])], 8, 64, 16, num_threads=2, allow_smaller_final_batch=True
            )
        assert {t.op.device for t in got} == {"/job:worker/task:0"}
        with tf.Session(cluster.target("worker", 1), graph=graph) as session:
            session.run([tf.local_variables_initializer(), tf.global_variables_initializer()])
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(session, coordinator)
            numbers = []
            try:
                while True:
                    n, text = session.run(got)
                    assert text.tolist() == [str(i).encode() for i in n]
                    numbers.append(n)
            except tf.errors.OutOfRangeError:
                pass
            found = np.concatenate(numbers)
            assert sorted(found) == sorted([*range(100)] * 2) and found.tolist() != sorted(found.tolist())
            assert session.run(counts) == [200, 4]
            coordinator.request_stop()
            coordinator.join(threads, stop_grace_period_secs=20)


@pytest.mark.slow
def test_a_task_that_is_lost_amid_a_pipeline_ends_it_with_its_name(
    processes: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            names = tf.train.string_input_producer(write(tmp_path, 50))
            _, serialized = tf.TFRecordReader().read(names)
        with tf.device("/job:worker/task:0"):
            got = tf.train.batch([serialized], 8)
        with tf.Session(cluster.target("worker"), graph=graph) as session:
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(session, coordinator)
            assert len(session.run(got)) == 8
            cluster.tasks["ps/0"].kill()
            with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError), match="ps"):
                coordinator.join(threads, stop_grace_period_secs=30)
