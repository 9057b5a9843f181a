"""Summary operations: TensorFlow's names, tags, bytes and sentences; on whatever task they stand."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.ops.raw import raw
from tests.kit import servers
from tests.summary import cases

ANSWERS = json.loads(cases.ANSWERS.read_text(encoding="utf-8"))


def _unpacked(summary: tf.Summary) -> list[Any]:
    """What a summary of images holds, with pixels for files."""
    pillow = pytest.importorskip("PIL.Image")
    found = []
    for value in summary.value:
        picture = value.image
        pixels = np.asarray(pillow.open(io.BytesIO(picture.encoded_image_string))).tolist()
        found.append([value.tag, picture.height, picture.width, picture.colorspace, pixels])
    return found


@pytest.mark.parametrize("name", cases.CASES)
def test_as_tensorflow(name: str) -> None:
    made, want = cases.answer(tf, raw, cases.CASES[name]), ANSWERS[name]
    assert made[0] == want[0], made
    if name.startswith("image") and not want[0].endswith("Error"):
        assert _unpacked(tf.Summary.FromString(base64.b64decode(made[1]))) == _unpacked(
            tf.Summary.FromString(base64.b64decode(want[1]))
        )
    elif want[0] == "TypeError":
        assert made[1].startswith("Value passed to parameter") and want[1].startswith("Value passed to parameter")
    elif want[0].endswith("Error"):
        assert want[1] in made[1]
    else:
        assert base64.b64decode(made[1]) == base64.b64decode(want[1])


def test_many_numbers_are_summed_in_order() -> None:
    values = np.random.default_rng(1).normal(size=200_001)
    with tf.Graph().as_default(), tf.Session() as session:
        (value,) = tf.Summary.FromString(session.run(tf.summary.histogram("h", tf.constant(values)))).value
    total = squares = 0.0
    for v in values.tolist():
        total, squares = total + v, squares + v * v
    assert (value.histo.sum, value.histo.sum_squares, value.histo.num) == (total, squares, len(values))
    assert sum(value.histo.bucket) == len(values)
    assert (value.histo.min, value.histo.max) == (values.min(), values.max())


def test_the_largest_number_of_all_has_a_bucket() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.summary.histogram("h", np.array([np.finfo(np.float64).max, -np.finfo(np.float64).max]))
        (value,) = tf.Summary.FromString(session.run(made)).value
    assert sum(value.histo.bucket) == 2


def test_there_may_be_nothing_to_merge() -> None:
    with tf.Graph().as_default():
        assert tf.summary.merge_all() is None and tf.merge_all_summaries() is None
        tf.summary.scalar("a", 1.0, collections=[])
        assert tf.summary.merge_all() is None
        tf.summary.merge([tf.summary.scalar("b", 1.0)], collections=["merged"])
        assert len(tf.get_collection("merged")) == 1


def test_names_before_1_0() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.scalar_summary("any tag: #1", 1.0)
        tf.scalar_summary(["x", "y"], [2.0, 3.0], name="named")
        tf.histogram_summary("h", [1.0])
        tf.image_summary("i", np.zeros((1, 2, 2, 1), np.uint8), max_images=1)
        tf.audio_summary("s", np.zeros((1, 2), np.float32), 8000)
        names = [t.op.name for t in tf.get_collection(tf.GraphKeys.SUMMARIES)]
        assert names == ["ScalarSummary", "named", "HistogramSummary", "ImageSummary", "AudioSummary"]
        merged = tf.merge_all_summaries()
        assert merged is not None and merged.op.name == "MergeSummary/MergeSummary"
        tags = [v.tag for v in tf.Summary.FromString(session.run(merged)).value]
        assert tags == ["any tag: #1", "x", "y", "h", "i/image", "s/audio/0"]


def test_metadata_that_a_program_made() -> None:
    metadata = tf.SummaryMetadata(plugin_data=tf.SummaryMetadata.PluginData(plugin_name="p", content=b"\x00"))
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.summary.tensor_summary("t", [1], summary_metadata=metadata, display_name="shown")
        (value,) = tf.Summary.FromString(session.run(made)).value
    assert value.metadata == metadata and metadata.display_name == "shown"
    assert value.tensor.tensor_content == np.int32(1).tobytes() and value.tensor.dtype == 3


def test_a_summary_of_a_ps_fetched_through_a_worker() -> None:
    with servers.start({"ps": 1, "worker": 1}) as tasks, tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            loss = tf.Variable(3.0, name="weight")
            tf.summary.scalar("loss", loss)
            tf.summary.histogram("spread", tf.stack([loss, 1.0]))
        with tf.device("/job:worker/task:0"):
            tf.summary.scalar("twice", loss * 2.0)
            merged = tf.summary.merge_all()
        with tf.Session(tasks["worker:0"].target) as session:
            session.run(tf.global_variables_initializer())
            found = session.run(merged)
            assert isinstance(found, bytes)
            values = tf.Summary.FromString(found).value
            assert [v.tag for v in values] == ["loss", "spread", "twice"]
            assert (values[0].simple_value, values[1].histo.sum, values[2].simple_value) == (3.0, 4.0, 6.0)
            with pytest.raises(tf.errors.InvalidArgumentError, match="Nan in summary histogram for: spread"):
                session.run(merged, {loss.value(): float("nan")})
