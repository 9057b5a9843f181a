"""Cases of producers and batches, as those of `cases`."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from tests.inputs.cases import ANSWERS, READ, Case, answer, dims, drained, session_of
from tests.inputs.parsing import MESSAGES, PARSED


def produced(make: Callable[[Any], Any], most: int = 12) -> Case:
    """What a queue of a producer gives."""

    def case(tf: Any, folder: str) -> Any:
        queue = make(tf)
        got = queue.dequeue()
        runners = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
        names = [queue.name, got.op.name, [[r.name, [op.name for op in r.enqueue_ops]] for r in runners]]
        names.append([v.op.name for v in tf.local_variables()])
        names.append([s.op.name for s in tf.get_collection(tf.GraphKeys.SUMMARIES)])
        return names, dims(got.get_shape()), got.dtype.name, drained(tf, got, most)

    return case


def _slices(tf: Any, folder: str) -> Any:
    got = tf.train.slice_input_producer([["a", "b", "c"], [[1, 2], [3, 4], [5, 6]]], num_epochs=1, shuffle=False)
    return [dims(t.get_shape()) for t in got], [t.op.name for t in got], drained(tf, got)


def _once(tf: Any, folder: str) -> Any:
    for name in "cab":
        with open(f"{folder}/{name}.txt", "w"):
            pass
    found = tf.train.match_filenames_once(folder + "/*.txt")
    queue = tf.train.string_input_producer(found, num_epochs=1, shuffle=False)
    return found.op.name, dims(found.get_shape()), drained(tf, queue.dequeue())


def _limited(tf: Any, folder: str) -> Any:
    return drained(tf, tf.train.limit_epochs(tf.constant([1, 2]), 2))


def _empty(tf: Any, folder: str) -> Any:
    """A pipeline whose list of names is found to be empty when it runs."""
    names = tf.matching_files(folder + "/none*")
    queue = tf.train.string_input_producer(names, name="names")
    with session_of(tf) as session:
        return session.run(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)[0].enqueue_ops), queue


PRODUCED: dict[str, Case] = {
    "strings": produced(lambda tf: tf.train.string_input_producer(["a", "b", "c"], shuffle=False), 7),
    "strings in epochs": produced(
        lambda tf: tf.train.string_input_producer(["a", "b", "c"], num_epochs=2, shuffle=False)
    ),
    "strings shuffled": produced(
        lambda tf: tf.train.string_input_producer(["a", "b", "c", "d", "e"], num_epochs=2, seed=3, name="mine")
    ),
    "strings shared": produced(
        lambda tf: tf.train.string_input_producer(["a"], num_epochs=1, capacity=5, shared_name="shared")
    ),
    "ranges": produced(lambda tf: tf.train.range_input_producer(4, num_epochs=1, shuffle=False)),
    "ranges shuffled": produced(lambda tf: tf.train.range_input_producer(6, num_epochs=2, seed=5)),
    "tensors": produced(
        lambda tf: tf.train.input_producer([[1.0, 2.0], [3.0, 4.0]], num_epochs=1, shuffle=False, summary_name="s")
    ),
    "slices": _slices,
    "names once": _once,
    "limited": _limited,
    "limited to none": lambda tf, folder: tf.train.limit_epochs([1], 0),
    "nothing": lambda tf, folder: tf.train.string_input_producer([]),
    "nothing found": _empty,
    "None": lambda tf, folder: tf.train.string_input_producer(None),
    "no shape": lambda tf, folder: tf.train.input_producer(tf.placeholder(tf.float32)),
    "no slices": lambda tf, folder: tf.train.slice_input_producer([]),
}


def _source(tf: Any, count: int = 5) -> Any:
    """Numbers in order, a vector of each, and a text."""
    number = tf.train.range_input_producer(count, num_epochs=1, shuffle=False).dequeue()
    return number, tf.fill([2], tf.cast(number, tf.float32)), tf.as_string(number)


def batched(make: Callable[[Any], Any], ordered: bool = True) -> Case:
    """Batches: names, shapes that are known before, and what comes until the end."""

    def case(tf: Any, folder: str) -> Any:
        got = make(tf)
        flat = list(got.values()) if isinstance(got, dict) else list(got) if isinstance(got, (list, tuple)) else [got]
        shapes = [dims(t.dense_shape.get_shape() if hasattr(t, "dense_shape") else t.get_shape()) for t in flat]
        runners = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
        names = [[r.name, [op.name.split("/cond")[0] for op in r.enqueue_ops]] for r in runners]
        names.append([s.op.name for s in tf.get_collection(tf.GraphKeys.SUMMARIES)])
        names.append([t.op.name.split("/control")[0] for t in flat if not hasattr(t, "dense_shape")])
        out, _ = drained(tf, got)
        if ordered:
            return shapes, names, out
        numbers = sorted(int(n) for one in out[:-1] for n in one[0])
        return shapes, names, numbers, len(out), out[-1]

    return case


def _joined(tf: Any, **more: Any) -> Any:
    with tf.name_scope("first"):
        one = _source(tf, 3)
    with tf.name_scope("second"):
        two = _source(tf, 3)
    return [one, two]


def _padded(tf: Any) -> Any:
    number = _source(tf)[0]
    return tf.train.batch([tf.range(number), tf.fill([number, 2], "x")], 2, dynamic_pad=True)


def _sparse(tf: Any) -> Any:
    number = tf.cast(_source(tf, 4)[0], tf.int64)
    made = tf.SparseTensor([[0], [1]], tf.stack([number, -number]), [number + 2])
    return tf.train.batch([made, number], 2)


def _sparse_many(tf: Any, kept: bool = False) -> Any:
    number = tf.cast(_source(tf, 4)[0], tf.int64)
    made = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], tf.stack([number, -number, number + 5]), [2, 3])
    if not kept:
        return tf.train.batch([made, tf.stack([number, -number])], 3, enqueue_many=True)
    return tf.train.maybe_batch(
        [made, tf.stack([number, -number])], tf.stack([tf.equal(number, 2), True]), 2, enqueue_many=True
    )


def _many(tf: Any) -> Any:
    number, vector, text = _source(tf, 4)
    return tf.train.batch([tf.stack([number, number + 100]), tf.stack([text, "y"])], 3, enqueue_many=True)


BATCHED: dict[str, Case] = {
    "batch": batched(lambda tf: tf.train.batch(_source(tf), 2)),
    "batch of one": batched(lambda tf: tf.train.batch([_source(tf)[1]], 2)),
    "batch of a dict": batched(
        lambda tf: tf.train.batch(dict(zip("bca", _source(tf))), 2, allow_smaller_final_batch=True, name="made")
    ),
    "batch of a dict of one": batched(lambda tf: tf.train.batch({"k": _source(tf)[1]}, 2)),
    "batch with a rest": batched(lambda tf: tf.train.batch(_source(tf), 2, allow_smaller_final_batch=True)),
    "batch of many": batched(_many),
    "batch of padded": batched(_padded),
    "batch of sparse": batched(_sparse),
    "batch of many sparse": batched(_sparse_many),
    "batch of some of many sparse": batched(lambda tf: _sparse_many(tf, True)),
    "batch of a size that is known later": batched(
        lambda tf: tf.train.batch(_source(tf), tf.placeholder_with_default(3, []), capacity=7)
    ),
    "batch of some": batched(lambda tf: (lambda s: tf.train.maybe_batch(s, tf.not_equal(s[0], 2), 2))(_source(tf))),
    "batch of some of many": batched(
        lambda tf: (lambda n: tf.train.maybe_batch(
            [tf.stack([n, n + 100])], tf.stack([tf.equal(n, 2), True]), 2, enqueue_many=True
        ))(_source(tf)[0])
    ),
    "shuffled": batched(
        lambda tf: tf.train.shuffle_batch(_source(tf, 8), 2, 20, 3, num_threads=2, seed=1), ordered=False
    ),
    "shuffled with a rest": batched(
        lambda tf: tf.train.shuffle_batch(_source(tf, 9), 2, 20, 3, allow_smaller_final_batch=True), ordered=False
    ),
    "shuffled some": batched(
        lambda tf: (lambda s: tf.train.maybe_shuffle_batch(s, 2, 20, 3, tf.not_equal(s[0], 2)))(_source(tf, 9)),
        ordered=False,
    ),
    "joined": batched(lambda tf: tf.train.batch_join(_joined(tf), 2), ordered=False),
    "joined some": batched(lambda tf: tf.train.maybe_batch_join(_joined(tf), True, 2), ordered=False),
    "joined shuffled": batched(lambda tf: tf.train.shuffle_batch_join(_joined(tf), 2, 20, 3), ordered=False),
    "joined some shuffled": batched(
        lambda tf: tf.train.maybe_shuffle_batch_join(_joined(tf), 2, 20, 3, True, name="j"), ordered=False
    ),
    "no tensors": lambda tf, folder: tf.train.batch([], 2),
    "no lists": lambda tf, folder: tf.train.batch_join([], 2),
    "small capacity": lambda tf, folder: tf.train.shuffle_batch([tf.constant(1)], 2, 3, 3),
    "unknown rank": lambda tf, folder: tf.train.batch([tf.placeholder(tf.float32)], 2),
    "unknown shape": lambda tf, folder: tf.train.batch([tf.placeholder(tf.float32, [None])], 2),
    "lists of other types": lambda tf, folder: tf.train.batch_join([[tf.constant(1)], [tf.constant(1.0)]], 2),
    "dicts of other keys": lambda tf, folder: tf.train.batch_join([{"a": tf.constant(1)}, {"b": tf.constant(1)}], 2),
    "kept by a vector": lambda tf, folder: tf.train.maybe_batch([tf.constant(1)], [True], 2),
}

CASES: dict[str, dict[str, Case]] = {
    "messages": MESSAGES, "parsed": PARSED, "read": READ, "produced": PRODUCED, "batched": BATCHED,
}  # fmt: skip


def record() -> None:
    """Ask TensorFlow. Run with its Python from the repository's root, as `python -m tests.inputs.pipelines`."""
    tf: Any = importlib.import_module("tensorflow.compat.v1")
    tf.disable_eager_execution()
    tf.disable_resource_variables()
    tf.logging.set_verbosity(tf.logging.FATAL)
    kept = sys.argv[1:]
    answers = json.loads(ANSWERS.read_text()) if kept else {}
    for group, cases in CASES.items():
        if not kept or group in kept:
            answers[group] = {}
            for name, case in cases.items():
                print(group, name, flush=True)
                answers[group][name] = answer(case, tf)
    ANSWERS.parent.mkdir(exist_ok=True)
    lines = ",\n".join(
        f'"{group}": {{\n' + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}"
        for group, found in answers.items()
    )
    ANSWERS.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    record()
