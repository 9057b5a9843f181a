"""Print, Assert and check_numerics."""

from __future__ import annotations

import numpy as np
import pytest

from dtfzmq.base import errors
from dtfzmq.graph.graph import Graph
from dtfzmq.ops import checks, families, printing
from dtfzmq.ops import constants as c
from dtfzmq.ops.gradients import gradients
from tests.kit.evaluate import Env, evaluate

assert families.DECLARED


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as g:
        yield g


def test_print_shows_what_it_passes_on(capsys):
    x = c.constant([1.5, 2.0, 3.0, 4.0])
    y = printing.Print(x, [x, "text", True], message="here: ", first_n=2, summarize=3)
    env = Env()
    for _ in range(3):
        np.testing.assert_array_equal(evaluate(y, env=env), [1.5, 2, 3, 4])
    assert capsys.readouterr().err == "here: [1.5 2 3...][text][1]\n" * 2
    assert evaluate(gradients(y, x)[0]).tolist() == [1, 1, 1, 1]


def test_assert_names_its_data():
    p = c.placeholder("bool", [])
    check = checks.Assert(p, ["sizes differ", c.constant([1, 2, 3, 4])])
    assert evaluate(check, {p: True}) is None
    with pytest.raises(errors.InvalidArgumentError, match=r"assertion failed: \[sizes differ\] \[1 2 3\.\.\.\]"):
        evaluate(check, {p: False})


def test_check_numerics_names_what_it_found():
    x = c.placeholder("float32", [None])
    y = checks.check_numerics(x, "the loss")
    assert evaluate(y, {x: [1, 2]}).tolist() == [1, 2]
    with pytest.raises(errors.InvalidArgumentError, match="the loss : Tensor had Inf and NaN values"):
        evaluate(y, {x: [np.nan, np.inf]})
