"""Recorded answers of TensorFlow 2.21 (tf.compat.v1), for every function of the op library, in three placements."""

from __future__ import annotations

import contextlib

import pytest

import dtfzmq as tf
from tests.kit.evaluate import evaluate
from tests.ops.cases import CASES, Built


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["case"])
def test_recorded_answer(case):
    with tf.Graph().as_default():
        built = Built(case)
        built.check(evaluate(built.fetches))


def run_all(placement, capsys, session, inputs, rest):
    """Every case in a graph and session of its own; prints how many passed, and fails with the reasons of the rest."""
    failures = []
    for case in CASES:
        with tf.Graph().as_default() as graph:
            try:
                built = Built(case, inputs, rest)
                with session(graph) as made:
                    built.check(made.run(built.fetches))
            except Exception as error:
                failures.append(f"{case['case']}: {type(error).__name__}: {str(error)[:300]}")
    with capsys.disabled():
        print(f"\nconformance, {placement}: {len(CASES) - len(failures)} passed, {len(failures)} failed")
    assert not failures, "\n".join(failures)


@pytest.mark.slow
def test_in_this_process(capsys):
    run_all("in-process", capsys, lambda graph: tf.Session(graph=graph), contextlib.nullcontext, contextlib.nullcontext)


@pytest.mark.slow
def test_over_tasks(capsys, processes):
    """On a worker process that another is the master of; then with the inputs on the master's task."""
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()

    def session(graph):
        return tf.Session(cluster.target("ps"), graph=graph)

    def on_ps():
        return tf.device("/job:ps/task:0")

    def on_worker():
        return tf.device("/job:worker/task:0")

    run_all("through a remote worker", capsys, session, on_worker, on_worker)
    run_all("inputs on another task", capsys, session, on_ps, on_worker)
