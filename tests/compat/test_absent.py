"""What a program of TensorFlow 1 is told where it uses a name that is not there yet."""

from __future__ import annotations

import functools
import importlib

import pytest

import dtfzmq as tf
from dtfzmq.base.absent import GAPS
from tests.kit.cluster import ROOT

DIFFERENCES = " ".join((ROOT / "docs" / "differences.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: gap.what)
def test_each_name_says_what_is_missing_and_what_to_do(gap):
    assert gap.what in DIFFERENCES
    for name in gap.names.split():
        with pytest.raises(AttributeError, match=f"tf.{name} is not there yet: dtfzmq has no {gap.what}") as caught:
            functools.reduce(getattr, name.split("."), tf)
        assert gap.instead in str(caught.value)


@pytest.mark.parametrize(
    "module, name",
    [
        (tf, "dtfzmq"), (tf.train, "dtfzmq.train"), (tf.contrib, "dtfzmq.contrib"),
        (tf.contrib.framework, "dtfzmq.contrib.framework"), (tf.contrib.training, "dtfzmq.contrib.training"),
    ],
)  # fmt: skip
def test_other_names_are_told_as_python_does(module, name):
    with pytest.raises(AttributeError, match=f"^module '{name}' has no attribute 'no_such_name'$"):
        module.no_such_name  # noqa: B018  # the look-up is what fails
    assert not hasattr(module, "no_such_name") and not hasattr(tf.train, "Checkpoint")


def test_programs_that_name_the_first_api_by_its_version():
    assert tf.compat.v1 is tf and tf.compat.v1.train.Server is tf.train.Server
    assert importlib.import_module("dtfzmq.compat.v1") is tf


def test_methods_that_are_not_there():
    with tf.Graph().as_default() as graph:
        saver = tf.train.Saver([tf.Variable(0)])
    for whole, name in (graph, "as_graph_def"), (saver, "export_meta_graph"), (saver, "as_saver_def"):
        with pytest.raises(AttributeError, match=f"{name} is not there yet.*build the graph again"):
            getattr(whole, name)
        assert not hasattr(whole, name)
