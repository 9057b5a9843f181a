"""tf.logging as TensorFlow 1's programs use it."""

from __future__ import annotations

import logging

import dtfzmq as tf


def test_lines_that_are_logged_now_and_then(caplog):
    with caplog.at_level(logging.INFO, "dtfzmq"):
        for i in range(7):
            tf.logging.log_every_n(tf.logging.INFO, "every %d", 3, i)
            tf.logging.log_first_n(tf.logging.WARN, "first %d", 2, i)
            tf.logging.log_first_n(tf.logging.WARN, "another line %d", 1, i)
            tf.logging.log_if(tf.logging.INFO, "even %d", i % 2 == 0, i)
            tf.logging.vlog(tf.logging.DEBUG, "hidden")
        tf.logging.flush()
    said = [record.getMessage() for record in caplog.records]
    assert [text for text in said if text.startswith("every")] == ["every 0", "every 3", "every 6"]
    assert [text for text in said if text.startswith(("first", "another"))] == ["first 0", "another line 0", "first 1"]
    assert [text for text in said if text.startswith("even ")] == ["even 0", "even 2", "even 4", "even 6"]
    assert "hidden" not in said


def test_a_verbosity_shows_and_hides(caplog):
    before = tf.logging.get_verbosity()
    try:
        tf.logging.set_verbosity(tf.logging.ERROR)
        tf.logging.warn("not shown")
        tf.logging.error("shown %s", "here")
        assert tf.logging.get_verbosity() == tf.logging.ERROR
    finally:
        tf.logging.set_verbosity(before)
    assert [record.getMessage() for record in caplog.records] == ["shown here"]
