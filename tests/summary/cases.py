"""Summaries that TensorFlow is asked for too: `python tests/summary/cases.py`, where it is installed, records answers.

Each case makes a tensor with the functions of a module, and builders of ops by keyword.
"""

from __future__ import annotations

import base64
import importlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ANSWERS = Path(__file__).parent / "data" / "answers.json"
EVENTS = ANSWERS.with_name("recorded.tfevents")
Case = Callable[[Any, Any], Any]

_SPREAD = np.sin(np.arange(1, 200) * 12.9898) * np.exp(np.cos(np.arange(1, 200) * 78.233) * 9)
_WILD = np.array([1e300, -1e300, 1.7e308, 1e20, -1e20, 1e-13, 1e-12, -1e-12, -1.1e-12, 0.0, -0.0, 1.0, 1.1])
_PICTURE = np.sin(np.arange(48, dtype=np.float32)).reshape(2, 2, 4, 3)
_SOUND = np.array([[0, 0.5, -0.5, 1, -1, 2, -2, 0.3], [0.1, 0.7, -0.9, 0.25, 1e9, -1e9, 0.5 / 32768, 1.5 / 32768]], "f")


def _spoilt(value: float) -> Any:
    picture = _PICTURE.copy()
    picture[0, 1, 2, 1] = value
    return picture


def _scoped(tf: Any, raw: Any) -> Any:
    with tf.name_scope("outer"):
        tf.summary.scalar("a", 1.0)
        return tf.summary.scalar("a", 2.0, family="fam")


def _collected(tf: Any, raw: Any) -> Any:
    with tf.name_scope("here"):
        tf.summary.scalar("a", 1.0)
    tf.summary.histogram("b", [1.0, 2.0], collections=["mine"])
    tf.summary.text("c", tf.constant("hello"))
    return tf.summary.merge_all(name="all")


def _of_a_key(tf: Any, raw: Any) -> Any:
    tf.summary.scalar("a", 1.0, collections=["mine"])
    with tf.name_scope("there"):
        tf.summary.scalar("b", 2.0, collections=["mine"])
    return tf.summary.merge_all("mine", scope="there")


CASES: dict[str, Case] = {
    "scalar": lambda tf, raw: tf.summary.scalar("a", 3.5),
    "scalar zero": lambda tf, raw: tf.summary.scalar("a", 0.0),
    "scalar int": lambda tf, raw: tf.summary.scalar("a", 2),
    "scalar int64": lambda tf, raw: tf.summary.scalar("a", tf.constant(2**40 + 1, tf.int64)),
    "scalar half": lambda tf, raw: tf.summary.scalar("a", tf.constant(0.1, tf.float16)),
    "scalar nan": lambda tf, raw: tf.summary.scalar("a", float("nan")),
    "scalar large": lambda tf, raw: tf.summary.scalar("a", tf.constant(1e300, tf.float64)),
    "scalar cleaned": lambda tf, raw: tf.summary.scalar("/my loss: (all)", 1.0),
    "scalar no name": lambda tf, raw: tf.summary.scalar("", 1.0),
    "scalar None": lambda tf, raw: tf.summary.scalar(None, 1.0),
    "scalar family": lambda tf, raw: tf.summary.scalar("a", 1.0, family="my fam"),
    "scalar scoped": _scoped,
    "scalars": lambda tf, raw: raw.ScalarSummary(tags=["a", "b"], values=[1.0, 2.0]),
    "scalar of a vector": lambda tf, raw: tf.summary.scalar("a b", [1.0, 2.0]),
    "scalars of other numbers": lambda tf, raw: raw.ScalarSummary(tags=["a", "b"], values=[1.0, 2.0, 3.0]),
    "scalar bool": lambda tf, raw: tf.summary.scalar("a", True),
    "scalar text": lambda tf, raw: tf.summary.scalar("a", "b"),
    "histogram": lambda tf, raw: tf.summary.histogram("h", _SPREAD),
    "histogram single": lambda tf, raw: tf.summary.histogram("h", _SPREAD.astype(np.float32).reshape(1, -1)),
    "histogram half": lambda tf, raw: tf.summary.histogram("h", tf.constant([0.1, 2.0, 2.5], tf.float16)),
    "histogram ints": lambda tf, raw: tf.summary.histogram("h", [[1, -5], [7, 7]]),
    "histogram wild": lambda tf, raw: tf.summary.histogram("h", _WILD),
    "histogram alone": lambda tf, raw: tf.summary.histogram("h", 1),
    "histogram negative": lambda tf, raw: tf.summary.histogram("h", [-1.0]),
    "histogram zero": lambda tf, raw: tf.summary.histogram("h", 0.0),
    "histogram empty": lambda tf, raw: tf.summary.histogram("h", []),
    "histogram family": lambda tf, raw: tf.summary.histogram("h", [1.0], family="f"),
    "histogram nan": lambda tf, raw: tf.summary.histogram("h", [1.0, np.nan, np.inf]),
    "histogram inf": lambda tf, raw: tf.summary.histogram("h", [1.0, -np.inf, np.nan]),
    "histogram tags": lambda tf, raw: raw.HistogramSummary(tag=["h"], values=1.0),
    "histogram text": lambda tf, raw: tf.summary.histogram("h", ["a"]),
    "image": lambda tf, raw: tf.summary.image("i", _PICTURE),
    "image one": lambda tf, raw: tf.summary.image("i", _PICTURE, max_outputs=1),
    "image positive": lambda tf, raw: tf.summary.image("i", np.abs(_PICTURE)),
    "image dark": lambda tf, raw: tf.summary.image("i", _PICTURE * 1e-8),
    "image double": lambda tf, raw: tf.summary.image("i", _PICTURE.astype(np.float64)),
    "image half": lambda tf, raw: tf.summary.image("i", _PICTURE.astype(np.float16)),
    "image bytes": lambda tf, raw: tf.summary.image("i", (_PICTURE * 90 + 100).astype(np.uint8)),
    "image grey": lambda tf, raw: tf.summary.image("i", _PICTURE[..., :1], family="f"),
    "image clear": lambda tf, raw: tf.summary.image("i", np.concatenate([_PICTURE, _PICTURE[..., :1]], 3)),
    "image nan": lambda tf, raw: tf.summary.image("i", _spoilt(np.nan)),
    "image inf": lambda tf, raw: tf.summary.image("i", _spoilt(-np.inf)),
    "image none": lambda tf, raw: tf.summary.image("i", _PICTURE[:0]),
    "image all nan": lambda tf, raw: tf.summary.image("i", _PICTURE * np.float32("nan")),
    "image of 2 channels": lambda tf, raw: tf.summary.image("i", _PICTURE[..., :2]),
    "image of 3 axes": lambda tf, raw: tf.summary.image("i", _PICTURE[0]),
    "image of ints": lambda tf, raw: tf.summary.image("i", tf.zeros([1, 2, 2, 3], tf.int32)),
    "image outputs": lambda tf, raw: tf.summary.image("i", _PICTURE, max_outputs=0),
    "image tags": lambda tf, raw: raw.ImageSummary(tag=["i"], tensor=_PICTURE),
    "audio": lambda tf, raw: tf.summary.audio("s", _SOUND, 8000.0),
    "audio one": lambda tf, raw: tf.summary.audio("s", _SOUND.reshape(2, 4, 2), 44100, max_outputs=1, family="f"),
    "audio slow": lambda tf, raw: tf.summary.audio("s", _SOUND, 0.2),
    "audio nan": lambda tf, raw: tf.summary.audio("s", _SOUND * np.float32("nan"), 1.0),
    "audio short": lambda tf, raw: tf.summary.audio("s", _SOUND.reshape(16, 1, 1)[:, :0], 1.0),
    "audio rate vector": lambda tf, raw: tf.summary.audio("s", _SOUND, [3.0]),
    "audio axes": lambda tf, raw: tf.summary.audio("s", _SOUND[0], 1.0),
    "audio no channels": lambda tf, raw: tf.summary.audio("s", _SOUND.reshape(1, 16, 1)[..., :0], 1.0),
    "audio rate negative": lambda tf, raw: tf.summary.audio("s", _SOUND, -3.0),
    "audio rate large": lambda tf, raw: tf.summary.audio("s", _SOUND, 1e12),
    "audio outputs": lambda tf, raw: tf.summary.audio("s", _SOUND, 1.0, max_outputs=0),
    "audio tags": lambda tf, raw: raw.AudioSummaryV2(tag=["s"], tensor=_SOUND, sample_rate=1.0),
    "text": lambda tf, raw: tf.summary.text("t", tf.constant("hello")),
    "texts": lambda tf, raw: tf.summary.text("t", tf.constant([["a", "b"], ["", "d"]])),
    "text of numbers": lambda tf, raw: tf.summary.text("t", tf.constant(1.0, name="c")),
    "tensor": lambda tf, raw: tf.summary.tensor_summary("t", [[1.0, 2.0]]),
    "tensor described": lambda tf, raw: tf.summary.tensor_summary(
        "t", 3, summary_description="what", display_name="shown", family="f"
    ),
    "tensor tags": lambda tf, raw: raw.TensorSummaryV2(tag=["t"], tensor=1, serialized_summary_metadata=""),
    "tensor metadata": lambda tf, raw: raw.TensorSummaryV2(tag="t", tensor=1, serialized_summary_metadata=[""]),
    "merge": lambda tf, raw: tf.summary.merge([tf.summary.scalar("a", 1.0), tf.summary.histogram("b", [1.0])]),
    "merge named": lambda tf, raw: tf.summary.merge([tf.summary.scalar("a", 1.0)], name="my merge"),
    "merge lists": lambda tf, raw: tf.summary.merge([raw.ScalarSummary(tags=["a", "b"], values=[1.0, 2.0])]),
    "merge nameless": lambda tf, raw: tf.summary.merge([tf.summary.scalar("", 1.0), tf.summary.scalar("", 2.0)]),
    "merge vectors": lambda tf, raw: tf.summary.merge([tf.stack([tf.summary.scalar(n, 1.0) for n in "ab"])]),
    "merge twice": lambda tf, raw: tf.summary.merge(
        [tf.summary.scalar("a", 1.0), raw.ScalarSummary(tags="a", values=2.0)]
    ),
    "merge junk": lambda tf, raw: tf.summary.merge([tf.constant("junk")]),
    "merge nothing": lambda tf, raw: tf.summary.merge([]),
    "merge all": _collected,
    "merge a key": _of_a_key,
}


def answer(tf: Any, raw: Any, case: Case) -> list[str]:
    """[name of the operation, the summary's bytes in base64], or [class of the error, its sentence]."""
    with tf.Graph().as_default(), tf.Session() as session:
        try:
            made = case(tf, raw)
            return [made.op.name, base64.b64encode(session.run(made)).decode()]
        except tf.errors.OpError as error:
            sentences = re.findall(r"^Node: .*\n(?!Detected)(.*)", error.message, re.M) or [error.message]
            return [type(error).__name__, sentences[0].split(" \n")[0].strip()]
        except (TypeError, ValueError) as error:
            return [type(error).__name__, str(error)]


def messages(tf: Any) -> list[Any]:
    """Events, as programs make them."""
    said = tf.Summary(value=[tf.Summary.Value(tag="accuracy", simple_value=0.75)])
    said.value.add(tag="\u00e9t\u00e9", simple_value=0.0)
    spread = said.value.add(tag="spread").histo
    spread.min, spread.max, spread.num, spread.sum = -1.0, 2.5, 3, -0.0
    spread.bucket_limit.append(0.5)
    spread.bucket_limit.extend([1.5, 1.7976931348623157e308])
    spread.bucket.extend([1, 0, 2])
    picture = tf.Summary.Image(height=2, width=3, colorspace=1, encoded_image_string=b"\x89PNG")
    said.value.add(node_name="node", tag="picture", image=picture)
    said.value.add(tag="sound", audio=tf.Summary.Audio(sample_rate=44100, content_type="audio/wav"))
    hint = tf.SummaryMetadata(display_name="shown", plugin_data={"plugin_name": "text", "content": b"\x00\xff"})
    text = said.value.add(tag="text", metadata=hint).tensor
    text.dtype = 7
    text.tensor_shape.dim.add(size=2)
    text.string_val.extend([b"a", b""])
    return [
        tf.Event(wall_time=1.5, step=-3, summary=said),
        tf.Event(wall_time=2.0, step=2**40, session_log=tf.SessionLog(status=tf.SessionLog.CHECKPOINT, msg="saved")),
        tf.Event(graph_def=b"\x0a\x00"),
        tf.Event(log_message=tf.LogMessage(level=tf.LogMessage.WARN, message="careful")),
        tf.Event(tagged_run_metadata=tf.summary.TaggedRunMetadata(tag="run", run_metadata=b"\x01")),
        tf.Event(summary=tf.Summary()),
        tf.Event(),
    ]


def _record() -> None:
    tf = importlib.import_module("tensorflow").compat.v1
    tf.disable_eager_execution()
    found = {name: answer(tf, tf.raw_ops, case) for name, case in CASES.items()}
    ANSWERS.write_text(json.dumps(found, indent=1) + "\n")
    with tempfile.TemporaryDirectory() as folder, tf.summary.FileWriter(folder) as writer:
        for event in messages(tf):
            writer.add_event(event)
        writer.flush()
        shutil.copy(next(Path(folder).iterdir()), EVENTS)


if __name__ == "__main__":
    _record()
