"""Programs with cond, while_loop and gradients on random devices: over tasks they give what one thread gives.

Programs are drawn by seed. Nothing but arrays is pushed between tasks: lists of loops cross as bytes.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph, get_default_graph
from dtfzmq.graph.serial import graph_nodes
from dtfzmq.ops import array, control, elementwise, families, math, reductions
from dtfzmq.ops import constants as c
from dtfzmq.ops.gradients import gradients
from tests.kit.evaluate import evaluate
from tests.runtime import simulated

assert families.DECLARED
PLACES = ["/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", ""]


class Program:
    """A scalar of two inputs, built with nested control flow on devices that the rng draws."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.graph = Graph()
        with self.graph.as_default():
            self.x = c.placeholder("float64", [None])
            self.w = c.placeholder("float64", [])
            self.pred = c.placeholder("bool", [])
            body = self.block([self.x, elementwise.tanh(self.x * self.w)], depth=2)
            self.y = reductions.reduce_sum(body)
            self.grads = gradients(self.y, [self.x, self.w])
            self.fetches = [self.y, *(convert_to_tensor(g) for g in self.grads if g is not None)]

    def placed(self):
        return get_default_graph().device(self.rng.choice(PLACES) or None)

    def block(self, values, depth):
        """One vector from the vectors in `values`."""
        rng = self.rng
        for _ in range(rng.randint(1, 3)):
            a, b = rng.choice(values), rng.choice(values)
            with self.placed():
                kind = rng.randrange(5 if depth else 3)
                if kind == 0:
                    made = elementwise.tanh(a * self.w + b)
                elif kind == 1:
                    count = tf.cast(array.shape(a)[0], "float64")
                    made = elementwise.sin(a - b) / count
                elif kind == 2:
                    made = math.maximum(a, b * 0.5)
                elif kind == 3:
                    taken = math.logical_xor(self.pred, c.constant(rng.random() < 0.5))
                    made = control.cond(taken, self.branch([a, b], depth), self.branch([b, a * 0.3], depth))
                else:
                    times = rng.randint(0, 3)
                    made = control.while_loop(
                        lambda i, v, times=times: i < times,
                        lambda i, v, b=b: (i + 1, self.same(self.block([v, b], depth - 1), v)),
                        (c.constant(0), a),
                    )[1]
            values = [*values, made]
        with self.placed():
            return values[-1] + values[-2]

    def branch(self, values, depth):
        return lambda: self.block(values, depth - 1)

    def same(self, made, like):
        made.set_shape(like.shape)
        return made


@pytest.mark.parametrize("seed", range(24))
def test_tasks_agree_with_one_thread(monkeypatch, seed):
    program = Program(seed)
    push = simulated._Link.push

    def only_arrays(self, number, items):
        assert not any(isinstance(value, list) for _, value in items), "a list was pushed"
        push(self, number, items)

    monkeypatch.setattr(simulated._Link, "push", only_arrays)
    at = np.array([0.3, -0.7, 1.1])
    for taken in (True, False):
        feeds = {program.x: at, program.w: np.float64(0.8), program.pred: np.bool_(taken)}
        want = evaluate(program.fetches, feeds)
        cluster = simulated.Cluster({"ps": 2, "worker": 1}, seed=seed)
        cluster.extend(graph_nodes(program.graph))
        got = cluster.run(
            [(t.op._id, t.value_index) for t in program.fetches],
            {(t.op._id, 0): v for t, v in feeds.items()},
        )
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
        step = 1e-6
        if program.grads[0] is not None:
            index = program.fetches[1:].index(program.grads[0]) + 1
            for i in range(len(at)):
                ends = []
                for sign in (1, -1):
                    moved = at.copy()
                    moved[i] += sign * step
                    ends.append(float(evaluate(program.y, {**feeds, program.x: moved})))
                assert want[index][i] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3, abs=1e-6)
