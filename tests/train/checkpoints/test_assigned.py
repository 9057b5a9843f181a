"""tf.contrib.framework: variables that take a checkpoint's values."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf

framework = tf.contrib.framework


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A checkpoint of w, a text that ends with NULs, and p in two parts."""
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.get_variable("w", initializer=[1.0, 2.0])
        tf.get_variable("text", initializer=b"a\0")
        parts = tf.get_variable("p", [4], partitioner=tf.fixed_size_partitioner(2))
        sess.run(tf.global_variables_initializer())
        sess.run([part.assign([2.0 * i, 2.0 * i + 1]) for i, part in enumerate(parts)])
        return tf.train.Saver().save(sess, str(tmp_path / "model"))


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def test_what_a_checkpoint_holds(path: str) -> None:
    assert framework.list_variables(path) == [("p", [4]), ("text", []), ("w", [2])]
    assert framework.load_variable(path, "w").tolist() == [1, 2]
    assert framework.load_checkpoint(path).has_tensor("text")


def test_by_list_and_by_map(path: str) -> None:
    w, text = tf.get_variable("w", [2]), tf.get_variable("text", initializer=b"")
    other = tf.get_variable("other", [2])
    parts = tf.get_variable("p", [4], partitioner=tf.fixed_size_partitioner(2))
    with tf.Session() as sess:
        sess.run(*framework.assign_from_checkpoint(path, [w, text, parts]))
        assert sess.run(w).tolist() == [1, 2]
        assert sess.run(text) == b"a\0"
        assert sess.run(tf.convert_to_tensor(parts)).tolist() == [0, 1, 2, 3]
        op, feeds = framework.assign_from_checkpoint(Path(path), {"w": other})
        sess.run(op, feeds)
        assert sess.run(other).tolist() == [1, 2]



def test_what_is_missing_or_has_another_shape(path: str, caplog: pytest.LogCaptureFixture) -> None:
    w, new, large = tf.get_variable("w", [2]), tf.get_variable("new", []), tf.get_variable("large", [3])
    with pytest.raises(ValueError, match=r"Checkpoint is missing variable \[new\]"):
        framework.assign_from_checkpoint(path, [w, new])
    with pytest.raises(ValueError, match=r"large has the shape \(3,\), and w in the checkpoint the shape \[2\]"):
        framework.assign_from_checkpoint(path, {"w": large})
    with caplog.at_level(logging.WARNING):
        op, feeds = framework.assign_from_checkpoint(path, [w, new], ignore_missing_vars=True)
    assert [v.tolist() for v in feeds.values()] == [[1, 2]]
    assert "Checkpoint is missing variable [new]" in caplog.text


def test_functions_of_a_session(path: str, caplog: pytest.LogCaptureFixture) -> None:
    w, new, square = tf.get_variable("w", [2]), tf.get_variable("new", []), tf.get_variable("square", [2, 1])
    with tf.Session() as sess:
        restore = framework.assign_from_checkpoint_fn(path, [w, new], ignore_missing_vars=True)
        assert restore is not None
        restore(sess)
        assert sess.run(w).tolist() == [1, 2]
        assert "Variable new missing in checkpoint" in caplog.text
        reshaped = framework.assign_from_checkpoint_fn(path, {"w": square}, reshape_variables=True)
        assert reshaped is not None
        reshaped(sess)
        assert np.array_equal(sess.run(square), [[1], [2]])
        strict = framework.assign_from_checkpoint_fn(path, [new])
        assert strict is not None
        with pytest.raises(tf.errors.NotFoundError, match="new"):
            strict(sess)
    assert framework.assign_from_checkpoint_fn(path, [new], ignore_missing_vars=True) is None
    with pytest.raises(ValueError, match="var_list cannot be empty"):
        framework.assign_from_checkpoint_fn(path, [])
    assert tf.contrib.slim.assign_from_checkpoint_fn is framework.assign_from_checkpoint_fn
