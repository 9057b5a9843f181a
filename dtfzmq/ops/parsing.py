"""Parsing of examples into tensors. Sources: example_parsing_ops.cc and example_proto_fast_parsing.cc of TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.scopes import name_scope
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.ops import example_columns as columns
from dtfzmq.ops.example_columns import InContext, Place, decoded
from dtfzmq.ops.examples import example, feature, mapped, of_example, of_sequence
from dtfzmq.ops.features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
    Wanted,
    lists_of_any_length,
    merged,
)
from dtfzmq.ops.protos import block
from dtfzmq.ops.raw import raw
from dtfzmq.ops.shaping import invalid

Array = Any
_BYTES = NO_GRAD("bytes, not numbers")


def _listed(shape: TensorShape) -> bool:
    """Whether a feature is a list of any length."""
    return bool(shape.ndims) and shape.as_list()[0] is None


def _rows_parsed(
    rows: Any, place: Place, sparse: Any, dense: Any, shapes: Sequence[TensorShape], defaults: Sequence[Array]
) -> list[Array]:
    """The outputs of an op that parses, for rows: the parts of sparse ones by kind of part, then the dense ones."""
    found = [columns.sparse(rows, key, kind, place) for key, kind in sparse]
    out: list[Array] = [parts[i] for i in range(3) for parts in found]
    for (key, kind), shape, default in zip(dense, shapes, defaults):
        make = columns.lists if _listed(shape) else columns.dense
        out.append(make(rows, key, kind, shape, default, place))
    return out


def _alone(outputs: list[Array], sparse: int) -> list[Array]:
    """What is parsed of one row, without the axis of rows."""
    indices = [part[:, 1:] for part in outputs[:sparse]]
    shapes = [part[1:] for part in outputs[2 * sparse : 3 * sparse]]
    return [*indices, *outputs[sparse : 2 * sparse], *shapes, *(part[0] for part in outputs[3 * sparse :])]


def _tuple(outputs: list[Array]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _texts(values: Any) -> list[bytes]:
    return [bytes(value) for value in np.asarray(values, object).reshape(-1).tolist()]


def _many_make(node: Any, env: Any) -> Any:
    attrs = node.attrs
    sparse, dense = attrs["n_sparse_keys"], attrs["n_dense_keys"]

    def kernel(serialized: Array, names: Array, *rest: Array) -> Any:
        given, told = _texts(serialized), _texts(names)
        if told and len(told) != len(given):
            raise invalid(f"Expected len(names) == len(serialized), but got: {len(told)} vs. {len(given)}")
        keys = [bytes(np.asarray(key, object).item()) for key in rest[: sparse + dense]]
        rows = [decoded(of_example, data) for data in given]
        return _tuple(_rows_parsed(
            rows, Place(told), list(zip(keys, attrs["sparse_types"])), list(zip(keys[sparse:], attrs["Tdense"])),
            attrs["dense_shapes"], rest[sparse + dense :],
        ))  # fmt: skip

    return kernel


def _single_make(node: Any, env: Any) -> Any:
    attrs = node.attrs
    sparse = [(key.encode(), kind) for key, kind in zip(attrs["sparse_keys"], attrs["sparse_types"])]
    dense = [(key.encode(), kind) for key, kind in zip(attrs["dense_keys"], attrs["Tdense"])]

    def kernel(serialized: Array, *defaults: Array) -> Any:
        (data,) = _texts(serialized)
        rows = [decoded(of_example, data)]
        made = _rows_parsed(rows, Place(batch=False), sparse, dense, attrs["dense_shapes"], defaults)
        return _tuple(_alone(made, len(sparse)))

    return kernel


def _sequence_make(node: Any, env: Any) -> Any:
    attrs = node.attrs
    sparse = [(k.encode(), t) for k, t in zip(attrs["context_sparse_keys"], attrs["context_sparse_types"])]
    dense = [(k.encode(), t) for k, t in zip(attrs["context_dense_keys"], attrs["Tcontext_dense"])]
    more = [(k.encode(), t) for k, t in zip(attrs["feature_list_sparse_keys"], attrs["feature_list_sparse_types"])]
    lists = [(k.encode(), t) for k, t in zip(attrs["feature_list_dense_keys"], attrs["feature_list_dense_types"])]
    optional = {key.encode() for key in attrs["feature_list_dense_missing_assumed_empty"]}
    shapes = attrs["feature_list_dense_shapes"]

    def kernel(serialized: Array, debug_name: Array, *defaults: Array) -> Any:
        (data,) = _texts(serialized)
        context, steps = decoded(of_sequence, data, "sequence example")
        name = _texts(debug_name)
        place = InContext([] if name == [b""] else name)
        made = _rows_parsed([context], place, sparse, dense, attrs["context_dense_shapes"], defaults)
        out = _alone(made, len(sparse))
        found = [columns.sparse([{key: step} for step in steps.get(key, [])], key, t, place) for key, t in more]
        out += [parts[i] for i in range(3) for parts in found]
        for (key, kind), shape in zip(lists, shapes):
            if key not in steps and key not in optional:
                raise invalid(
                    f"Name: {place.name(0)}, Feature list '{key.decode()}' is required but could not be found.  Did you"
                    " mean to include it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
                )
            out.append(columns.steps(steps.get(key, []), key, kind, shape, place))
        return _tuple(out)

    return kernel


def _sparse_shapes(count: int, rank: int) -> list[TensorShape]:
    return [TensorShape([None, rank])] * count + [TensorShape([None])] * count + [TensorShape([rank])] * count


def _many_shapes(n: Operation) -> list[TensorShape]:
    rows = n.inputs[0].shape.with_rank(1)
    return _sparse_shapes(n.attrs["n_sparse_keys"], 2) + [rows.concatenate(s) for s in n.attrs["dense_shapes"]]


def _single_shapes(n: Operation) -> list[TensorShape]:
    n.inputs[0].shape.assert_has_rank(0)
    return _sparse_shapes(n.attrs["num_sparse"], 1) + list(n.attrs["dense_shapes"])


def _sequence_shapes(n: Operation) -> list[TensorShape]:
    n.inputs[0].shape.assert_has_rank(0)
    steps = TensorShape([None])
    return [
        *_sparse_shapes(n.attrs["Ncontext_sparse"], 1), *n.attrs["context_dense_shapes"],
        *_sparse_shapes(n.attrs["Nfeature_list_sparse"], 2),
        *(steps.concatenate(shape) for shape in n.attrs["feature_list_dense_shapes"]),
    ]  # fmt: skip


_DATA = example(a=np.array([1, -2]), b=np.array([b"x"], object), c=np.array([0.5, 1.5]))
_STEPS = block(2, mapped({"s": b"".join(block(1, feature(np.array([i]))) for i in (4, 5))}))
_SCALAR = np.array(_DATA, object)
_NONE = np.empty(0, object)
_OF_C: dict[str, Any] = {"dense_shapes": [TensorShape([2])], "Tdense": [dtypes.float32]}
_NO_FLOATS = np.empty(0, np.float32)

op(
    "ParseExample",
    "serialized: string, names: string, sparse_keys: string*, dense_keys: string*, dense_defaults: any*; "
    "sparse_types: list(type), Tdense: list(type), dense_shapes: list(shape) -> "
    "sparse_indices: int64*n_sparse_keys, sparse_values: sparse_types*, sparse_shapes: int64*n_sparse_keys, "
    "dense_values: Tdense*",
    shape=_many_shapes, make=_many_make, grad=_BYTES,
    samples=[
        Sample(
            np.array([_DATA, _DATA], object), _NONE, [np.array(b"a", object), np.array(b"b", object)],
            [np.array(b"c", object)], [_NO_FLOATS], sparse_types=[dtypes.int64, dtypes.string], **_OF_C,
        ),
        Sample(
            np.array([_DATA], object), _NONE, [], [np.array(b"d", object)], [_NO_FLOATS], sparse_types=[], **_OF_C,
            fails=errors.InvalidArgumentError,
        ),
    ],
)  # fmt: skip
op(
    "ParseSingleExample",
    "serialized: string, dense_defaults: any*; num_sparse: int, sparse_keys: list(str), dense_keys: list(str), "
    "sparse_types: list(type), Tdense: list(type), dense_shapes: list(shape) -> "
    "sparse_indices: int64*num_sparse, sparse_values: sparse_types*, sparse_shapes: int64*num_sparse, "
    "dense_values: Tdense*",
    shape=_single_shapes, make=_single_make, grad=_BYTES,
    samples=[
        Sample(
            _SCALAR, [_NO_FLOATS], num_sparse=2, sparse_keys=["a", "b"], sparse_types=[dtypes.int64, dtypes.string],
            dense_keys=["c"], **_OF_C,
        ),
        Sample(
            _SCALAR, [_NO_FLOATS], num_sparse=0, sparse_keys=[], sparse_types=[], dense_keys=["b"], **_OF_C,
            fails=errors.InvalidArgumentError,
        ),
    ],
)  # fmt: skip
op(
    "ParseSingleSequenceExample",
    "serialized: string, debug_name: string, context_dense_defaults: any*; Ncontext_sparse: int, "
    "context_sparse_keys: list(str), context_sparse_types: list(type), context_dense_keys: list(str), "
    "Tcontext_dense: list(type), context_dense_shapes: list(shape), Nfeature_list_sparse: int, "
    "feature_list_sparse_keys: list(str), feature_list_sparse_types: list(type), feature_list_dense_keys: list(str), "
    "feature_list_dense_types: list(type), feature_list_dense_shapes: list(shape), "
    "feature_list_dense_missing_assumed_empty: list(str) -> "
    "context_sparse_indices: int64*Ncontext_sparse, context_sparse_values: context_sparse_types*, "
    "context_sparse_shapes: int64*Ncontext_sparse, context_dense_values: Tcontext_dense*, "
    "feature_list_sparse_indices: int64*Nfeature_list_sparse, feature_list_sparse_values: feature_list_sparse_types*, "
    "feature_list_sparse_shapes: int64*Nfeature_list_sparse, feature_list_dense_values: feature_list_dense_types*",
    shape=_sequence_shapes, make=_sequence_make, grad=_BYTES,
    samples=[
        Sample(
            np.array(_DATA + _STEPS, object), np.array(b"", object), [_NO_FLOATS], Ncontext_sparse=1,
            context_sparse_keys=["a"], context_sparse_types=[dtypes.int64], context_dense_keys=["c"],
            Tcontext_dense=[dtypes.float32], context_dense_shapes=[TensorShape([2])], Nfeature_list_sparse=1,
            feature_list_sparse_keys=["s"], feature_list_sparse_types=[dtypes.int64], feature_list_dense_keys=["s"],
            feature_list_dense_types=[dtypes.int64], feature_list_dense_shapes=[TensorShape([1])],
            feature_list_dense_missing_assumed_empty=[],
        ),
    ],
)  # fmt: skip


def _sorted_out(wanted: Wanted, outputs: Sequence[Tensor]) -> dict[str, Any]:
    """The tensors of an op that parses, by name."""
    count = len(wanted.sparse)
    made: dict[str, Any] = {}
    for i, key in enumerate(wanted.sparse):
        made[key] = SparseTensor(outputs[i], outputs[count + i], outputs[2 * count + i])
    made.update(zip(wanted.dense, outputs[3 * count :]))
    return made


_OF_EXAMPLES = (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature)


def parse_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """The features of a vector of serialized examples as tensors, by name.

    `features` maps names to FixedLenFeature, FixedLenSequenceFeature, VarLenFeature or SparseFeature. The step fails
    with an InvalidArgumentError that names the feature where an example has another type or size of it, or lacks one
    without a default. `example_names` are told in such errors.
    """
    if not features:
        raise ValueError(f"Argument `features` cannot be None or falsy. Got {features}")
    wanted = Wanted(lists_of_any_length(features), _OF_EXAMPLES)
    with name_scope(name, "ParseExample"):
        rows = convert_to_tensor(serialized, dtype=dtypes.string, name="serialized")
        names = np.empty(0, object) if example_names is None else example_names
        made = raw.ParseExample(
            rows, convert_to_tensor(names, dtype=dtypes.string, name="names"), list(wanted.sparse), list(wanted.dense),
            wanted.default_tensors(), sparse_types=list(wanted.sparse.values()), Tdense=list(wanted.dense.values()),
            dense_shapes=wanted.shapes,
        )  # fmt: skip
        return merged(features, _sorted_out(wanted, made))


def parse_single_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """The features of one serialized example as tensors, by name. As parse_example, without the axis of examples."""
    if not features:
        raise ValueError("Invalid argument: features cannot be " + ("None." if features is None else "empty."))
    wanted = Wanted(lists_of_any_length(features), _OF_EXAMPLES)
    with name_scope(name, "ParseSingleExample"):
        made = raw.ParseSingleExample(
            _scalar(serialized), wanted.default_tensors(), num_sparse=len(wanted.sparse),
            sparse_keys=list(wanted.sparse), dense_keys=list(wanted.dense), sparse_types=list(wanted.sparse.values()),
            Tdense=list(wanted.dense.values()), dense_shapes=wanted.shapes,
        )  # fmt: skip
        return merged(features, _sorted_out(wanted, made))


def _scalar(serialized: Any) -> Tensor:
    found = convert_to_tensor(serialized, dtype=dtypes.string, name="serialized")
    if found.shape.ndims:
        raise ValueError("Input serialized must be a scalar")
    return found


def parse_single_sequence_example(
    serialized: Any, context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None, example_name: Any = None, name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """The features of one serialized SequenceExample, and those of its steps, as tensors by name.

    Of the whole there may be FixedLenFeature and VarLenFeature, of steps FixedLenSequenceFeature and VarLenFeature. For
    errors see parse_example.
    """
    if not (context_features or sequence_features):
        raise ValueError(
            "Both context_features and sequence_features are None, but at least one should have values."
        )
    context = Wanted(context_features, (VarLenFeature, FixedLenFeature))
    steps = Wanted(sequence_features, (VarLenFeature, FixedLenSequenceFeature))
    for key in steps.defaults:
        raise ValueError(f"Value feature_list.dense_defaults[{key}] must be None")
    with name_scope(name, "ParseSingleSequenceExample"):
        made = raw.ParseSingleSequenceExample(
            _scalar(serialized), convert_to_tensor(example_name or "", dtype=dtypes.string, name="debug_name"),
            context.default_tensors(), Ncontext_sparse=len(context.sparse), context_sparse_keys=list(context.sparse),
            context_sparse_types=list(context.sparse.values()), context_dense_keys=list(context.dense),
            Tcontext_dense=list(context.dense.values()), context_dense_shapes=context.shapes,
            Nfeature_list_sparse=len(steps.sparse), feature_list_sparse_keys=list(steps.sparse),
            feature_list_sparse_types=list(steps.sparse.values()), feature_list_dense_keys=list(steps.dense),
            feature_list_dense_types=list(steps.dense.values()), feature_list_dense_shapes=steps.shapes,
            feature_list_dense_missing_assumed_empty=sorted(steps.optional),
        )  # fmt: skip
        split = 3 * len(context.sparse) + len(context.dense)
        return _sorted_out(context, made[:split]), _sorted_out(steps, made[split:])
