"""Cases of examples as messages, and of parsing them, as those of `cases`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.inputs.cases import Case, dims, run, session_of

# -- messages ----------------------------------------------------------------------------------------------------------


def ints(tf: Any, *values: int) -> Any:
    """A feature of whole numbers."""
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(tf: Any, *values: float) -> Any:
    """A feature of numbers."""
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def texts(tf: Any, *values: bytes) -> Any:
    """A feature of texts."""
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(tf: Any, **features: Any) -> Any:
    """An example."""
    return tf.train.Example(features=tf.train.Features(feature=features))


def _large(tf: Any) -> Any:
    return example(
        tf, b=ints(tf, 1, -1, 2**62, 0, 300), a=texts(tf, b"x", b"", b"\xff"), c=floats(tf, 0.5, -2.0, 1e30),
        d=ints(tf), e=tf.train.Feature(),
    )  # fmt: skip


def _grown(tf: Any) -> Any:
    made = tf.train.Example()
    made.features.feature["n"].int64_list.value.extend([3, 4])
    made.features.feature["n"].int64_list.value.append(5)
    made.features.feature["t"].bytes_list.value.append(b"abc")
    made.features.feature["z"].CopyFrom(floats(tf, 2.5))
    return made


def _sequence(tf: Any) -> Any:
    return tf.train.SequenceExample(
        context=tf.train.Features(feature={"n": ints(tf, 2)}),
        feature_lists=tf.train.FeatureLists(
            feature_list={
                "w": tf.train.FeatureList(feature=[ints(tf, 1), ints(tf, 2), ints(tf, 3)]),
                "v": tf.train.FeatureList(feature=[texts(tf, b"a", b"b"), texts(tf), texts(tf, b"c")]),
            }
        ),
    )


def _bytes(make: Callable[[Any], Any]) -> Case:
    def case(tf: Any, folder: str) -> Any:
        made = make(tf)
        data = made.SerializeToString(deterministic=True)
        back = type(made).FromString(data)
        return [data.hex(), back == made, str(made) if len(made.features.feature) < 2 else ""]

    return case


def _looked_at(tf: Any, folder: str) -> Any:
    made = tf.train.Example.FromString(_large(tf).SerializeToString())
    feature = made.features.feature
    return [
        sorted(feature), "a" in feature, "zz" in feature, len(feature), list(feature["b"].int64_list.value),
        feature["b"].WhichOneof("kind"), feature["e"].WhichOneof("kind"), feature["d"].HasField("int64_list"),
        list(feature["a"].bytes_list.value), list(feature["c"].float_list.value), sorted(k for k, _ in feature.items()),
        len(feature["new"].int64_list.value), "new" in feature, feature.get("none"),
    ]  # fmt: skip


def _sequence_bytes(tf: Any, folder: str) -> Any:
    made = _sequence(tf)
    lists = made.feature_lists.feature_list
    data = made.SerializeToString(deterministic=True)
    return [data.hex(), sorted(lists), len(lists["w"].feature), tf.train.SequenceExample.FromString(data) == made]


MESSAGES: dict[str, Case] = {
    "example": _bytes(_large),
    "example of one": _bytes(lambda tf: example(tf, a=ints(tf, 1, 2))),
    "example of none": _bytes(lambda tf: tf.train.Example()),
    "example of two": _bytes(lambda tf: example(tf, b=texts(tf, b"hi\n"), a=floats(tf, 0.1))),
    "example grown": _bytes(_grown),
    "example looked at": _looked_at,
    "sequence": _sequence_bytes,
    "ints that are floats": lambda tf, folder: tf.train.Int64List(value=[1.5]).value[0],
    "a text for bytes": lambda tf, folder: list(tf.train.BytesList(value=[3]).value),
}

# -- parsing -----------------------------------------------------------------------------------------------------------


def parsed(features: Callable[[Any], Any], *examples: Callable[[Any], Any], single: bool = False, **how: Any) -> Case:
    """The values that some features of examples have, and what is known of their shapes before."""

    def case(tf: Any, folder: str) -> Any:
        data = [made if isinstance(made, bytes) else made.SerializeToString() for made in (e(tf) for e in examples)]
        one = tf.parse_single_example if single else tf.parse_example
        found = one(data[0] if single else data, features(tf), **how)
        known = {key: dims(value.get_shape()) for key, value in found.items()}
        return [known, run(tf, found)]

    return case


def _dense(tf: Any) -> Any:
    return {
        "i": tf.FixedLenFeature([], tf.int64),
        "f": tf.FixedLenFeature([2], tf.float32),
        "t": tf.FixedLenFeature([1, 2], tf.string, default_value=[[b"x", b"y"]]),
        "d": tf.FixedLenFeature([], tf.int64, default_value=-1),
    }


def _first(tf: Any) -> Any:
    return example(tf, i=ints(tf, 5), f=floats(tf, 1.5, 2.5), t=texts(tf, b"a", b"b"), d=ints(tf, 7), other=ints(tf, 9))


def _second(tf: Any) -> Any:
    return example(tf, i=ints(tf, -6), f=floats(tf, 0.0, -1.0))


def _of(key: str, kind: str) -> Callable[[Any], Any]:
    return lambda tf: {key: tf.FixedLenFeature([], getattr(tf, kind))}


def _lists(tf: Any) -> Any:
    return {
        "q": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "p": tf.FixedLenSequenceFeature([2], tf.float32, allow_missing=True, default_value=-1.0),
    }


def _pairs(tf: Any) -> Any:
    return {"sp": tf.SparseFeature("ix", "val", tf.float32, 10), "s2": tf.VarLenFeature(tf.string)}


def _sequences(single: Callable[[Any], Any], more: Callable[[Any], Any]) -> Case:
    def case(tf: Any, folder: str) -> Any:
        found = tf.parse_single_sequence_example(_sequence(tf).SerializeToString(), single(tf), more(tf))
        return run(tf, found)

    return case


def _none(tf: Any) -> Any:
    return None


def _shaped_unknown(tf: Any, folder: str) -> Any:
    placed = tf.placeholder(tf.string)
    found = tf.parse_example(placed, _dense(tf))
    with session_of(tf) as session:
        data = [_first(tf).SerializeToString()]
        return session.run(found, {placed: data})


PARSED: dict[str, Case] = {
    "dense": parsed(_dense, _first, _second),
    "dense single": parsed(_dense, _first, single=True),
    "dense defaults": parsed(_dense, _second, single=True),
    "dense missing": parsed(_dense, _first, lambda tf: example(tf, i=ints(tf, 1))),
    "dense missing single": parsed(_dense, lambda tf: example(tf, f=floats(tf, 1, 2)), single=True),
    "dense missing named": parsed(_of("i", "int64"), _second, lambda tf: example(tf), example_names=["a", "b"]),
    "dense of another kind": parsed(_of("i", "float32"), _first),
    "dense of another kind single": parsed(_of("t", "int64"), _first, single=True),
    "dense of another size": parsed(_of("f", "float32"), _first),
    "dense of another size single": parsed(_of("f", "float32"), _first, single=True),
    "dense empty": parsed(_of("i", "int64"), lambda tf: example(tf, i=ints(tf))),
    "dense kind not set": parsed(_of("i", "int64"), lambda tf: example(tf, i=tf.train.Feature())),
    "no example": parsed(_of("i", "int64"), lambda tf: b"abc"),
    "no example single": parsed(_of("i", "int64"), lambda tf: b"abc", single=True),
    "an unknown batch": _shaped_unknown,
    "sparse": parsed(
        lambda tf: {"s": tf.VarLenFeature(tf.int64), "s2": tf.VarLenFeature(tf.string)},
        lambda tf: example(tf, s=ints(tf, 1, 2, 3)), lambda tf: example(tf, s2=texts(tf, b"a")),
        lambda tf: example(tf, s=ints(tf, 4), s2=texts(tf, b"b", b"c")),
    ),
    "sparse single": parsed(
        lambda tf: {"s": tf.VarLenFeature(tf.float32), "s2": tf.VarLenFeature(tf.string)},
        lambda tf: example(tf, s=floats(tf, 1, 2)), single=True,
    ),
    "sparse of another kind": parsed(
        lambda tf: {"s": tf.VarLenFeature(tf.float32)}, lambda tf: example(tf, s=ints(tf, 1))
    ),
    "sparse by index": parsed(
        _pairs, lambda tf: example(tf, ix=ints(tf, 3, 0), val=floats(tf, 0.5, 1.5)),
        lambda tf: example(tf, ix=ints(tf, 9), val=floats(tf, 2.5), s2=texts(tf, b"q")),
    ),
    "sparse by index single": parsed(
        _pairs, lambda tf: example(tf, ix=ints(tf, 3, 0), val=floats(tf, 0.5, 1.5)), single=True
    ),
    "sparse by two indices": parsed(
        lambda tf: {"sp": tf.SparseFeature(["y", "x"], "val", tf.int64, [5, 10])},
        lambda tf: example(tf, x=ints(tf, 3, 0), y=ints(tf, 4, 4), val=ints(tf, 7, 8)),
    ),
    "sparse without an index": parsed(lambda tf: {"sp": tf.SparseFeature("", "val", tf.int64, 5)}, _first),
    "one key for both": parsed(
        lambda tf: {"sp": tf.SparseFeature("a", "i", tf.int64, 5), "i": tf.FixedLenFeature([], tf.int64)}, _first
    ),
    "keys beyond ASCII": parsed(lambda tf: {"é/ b": tf.FixedLenFeature([], tf.int64, 4)}, _first),
    "required of no elements": parsed(lambda tf: {"e": tf.FixedLenFeature([0], tf.int64)}, _second),
    "a default of another size": parsed(lambda tf: {"e": tf.FixedLenFeature([2], tf.int64, [1])}, _second),
    "lists": parsed(
        _lists, lambda tf: example(tf, q=ints(tf, 1, 2, 3), p=floats(tf, 1, 2)),
        lambda tf: example(tf, q=ints(tf, 4)), lambda tf: example(tf, p=floats(tf, 1, 2, 3, 4)),
    ),
    "lists single": parsed(
        _lists, lambda tf: example(tf, q=ints(tf, 1, 2, 3), p=floats(tf, 1, 2, 3, 4)), single=True
    ),
    "lists of another size": parsed(_lists, lambda tf: example(tf, p=floats(tf, 1, 2, 3))),
    "lists not allowed": parsed(
        lambda tf: {"q": tf.FixedLenSequenceFeature([], tf.int64)}, lambda tf: example(tf, q=ints(tf, 1))
    ),
    "no features": parsed(lambda tf: {}, _first),
    "unknown size": parsed(lambda tf: {"i": tf.FixedLenFeature([None], tf.int64)}, _first),
    "no feature": parsed(lambda tf: {"i": "int"}, _first),
    "a type that examples have not": parsed(_of("i", "int32"), _first),
    "not a scalar": lambda tf, folder: tf.parse_single_example([b"", b""], _dense(tf)),
    "sequence": _sequences(
        lambda tf: {"n": tf.FixedLenFeature([], tf.int64)},
        lambda tf: {"w": tf.FixedLenSequenceFeature([], tf.int64), "v": tf.VarLenFeature(tf.string)},
    ),
    "sequence missing": _sequences(_none, lambda tf: {"u": tf.FixedLenSequenceFeature([], tf.int64)}),
    "sequence missing allowed": _sequences(
        _none, lambda tf: {"u": tf.FixedLenSequenceFeature([3], tf.int64, allow_missing=True)}
    ),
    "sequence of another kind": _sequences(_none, lambda tf: {"w": tf.FixedLenSequenceFeature([], tf.float32)}),
    "sequence of another size": _sequences(_none, lambda tf: {"v": tf.FixedLenSequenceFeature([2], tf.string)}),
    "sequence context missing": _sequences(lambda tf: {"m": tf.FixedLenFeature([], tf.int64)}, _none),
}
