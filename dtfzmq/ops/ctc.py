"""Connectionist temporal classification: the loss of labels without alignment, and decoders."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid
from dtfzmq.ops.sparse_index import check_order, check_parts, flat

Array = Any


def _log_softmax(x: Array) -> Array:
    x = x.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def _forward(scores: Array, path: Array, stays: Array, jumps: Array) -> Array:
    """log of the probability of all ways to each place of `path` at each time [time, places]; `scores` is of places."""
    out = np.full(scores.shape, -np.inf)
    out[0, :2] = scores[0, :2]
    for t in range(1, len(scores)):
        before = out[t - 1]
        reach = np.where(stays, before, -np.inf)
        reach[1:] = np.logaddexp(reach[1:], before[:-1])
        reach[2:] = np.logaddexp(reach[2:], np.where(jumps[2:], before[:-2], -np.inf))
        out[t] = reach + scores[t]
    return out


def _one_loss(logits: Array, labels: list[int], merge: bool) -> tuple[float, Array]:
    """The loss of one sequence, and its gradient to the logits."""
    blank = logits.shape[1] - 1
    path = np.full(2 * len(labels) + 1, blank)
    path[1::2] = labels
    is_blank = path == blank
    stays = is_blank | merge
    jumps = ~is_blank
    if merge:
        jumps[2:] &= path[2:] != path[:-2]
    logs = _log_softmax(logits)
    scores = logs[:, path]
    ahead = _forward(scores, path, stays, jumps)
    # from the end: the path backwards, where a jump over a blank belongs to the place that it starts from
    turned = np.zeros_like(jumps)
    turned[2:] = jumps[::-1][:-2]
    back = _forward(scores[::-1, ::-1], path[::-1], stays[::-1], turned)[::-1, ::-1]
    total = np.logaddexp(ahead[-1, -1], ahead[-1, -2]) if len(path) > 1 else ahead[-1, -1]
    if not np.isfinite(total):
        return np.inf, np.exp(logs)  # as TensorFlow: what no labels at all would give
    shares = np.zeros_like(logs)
    np.add.at(shares.T, path, np.exp(ahead + back - scores - total).T)
    return -total, np.exp(logs) - shares


def _until_blank(labels: list[int], blank: int, row: int) -> list[int]:
    """The labels before the first blank, or number beyond it: these fill up a row, and nothing else may follow."""
    end = next((i for i, v in enumerate(labels) if v >= blank), len(labels))
    if any(v < 0 for v in labels) or any(v < blank for v in labels[end:]):
        raise invalid(f"Labels of sequence {row} must be in [0, {blank}), and none behind a blank: {labels}")
    return labels[:end]


def _loss_make(node: Any, env: Any) -> Any:
    collapse, merge = node.attrs["preprocess_collapse_repeated"], node.attrs["ctc_merge_repeated"]
    ignore = node.attrs["ignore_longer_outputs_than_inputs"]

    def kernel(inputs: Array, indices: Array, values: Array, lengths: Array) -> tuple[Array, Array]:
        steps, batch, classes = inputs.shape
        if len(lengths) != batch:
            raise invalid(f"len(sequence_length) != batch_size: {len(lengths)} != {batch}")
        wide = np.array([batch, 1 + np.max(indices[:, 1:], initial=0)])
        check_parts(indices, values, wide)
        check_order(indices, flat(indices, wide))
        losses, grads = np.zeros(batch, inputs.dtype), np.zeros_like(inputs)
        for b in range(batch):
            length = int(lengths[b])
            if not 0 <= length <= steps:
                raise invalid(f"0 <= sequence_length({b}) <= {steps} failed: {length}")
            labels = _until_blank(values[indices[:, 0] == b].tolist(), classes - 1, b)
            if collapse:
                labels = [v for i, v in enumerate(labels) if not i or labels[i - 1] != v]
            required = len(labels) + sum(a == b for a, b in zip(labels, labels[1:]))
            if required > length:
                if not ignore:
                    raise invalid(
                        f"Not enough time for target transition sequence (required: {required}, available: {length}) "
                        f"in sequence {b}. You can turn this error into a warning by using the flag "
                        "ignore_longer_outputs_than_inputs"
                    )
                if len(labels) > length:
                    continue
            if length:
                losses[b], grads[:length, b] = _one_loss(inputs[:length, b], labels, merge)
        return losses, grads

    return kernel


def _loss_shape(n: Operation) -> list[TensorShape]:
    inputs = n.inputs[0].shape.with_rank(3)
    return [inputs[1:2].merge_with(n.inputs[3].shape.with_rank(1)), inputs]


def _loss_grad(n: Operation, g: Tensor, _: Any) -> tuple[Tensor, None, None, None]:
    slope = raw.PreventGradient(n.outputs[1], message="The second derivative of ctc_loss is not known.")
    return slope * raw.Reshape(g, np.array([1, -1, 1], np.int32)), None, None, None


_LABELS = (np.array([[0, 0], [0, 1], [1, 0]], np.int64), ints(1, 1, 0))
_INPUTS = mat(5, 2, 3, dtype="float64")
op(
    "CTCLoss",
    "inputs: E, labels_indices: int64, labels_values: int32, sequence_length: int32; "
    "preprocess_collapse_repeated: bool = False, ctc_merge_repeated: bool = True, "
    "ignore_longer_outputs_than_inputs: bool = False -> loss: E, gradient: E",
    shape=_loss_shape, make=_loss_make, grad=_loss_grad,
    samples=[
        Sample(_INPUTS, *_LABELS, ints(5, 4), differentiable=False),
        Sample(_INPUTS, *_LABELS, ints(5, 4), ctc_merge_repeated=False, differentiable=False),
    ],
)  # fmt: skip


def _listed(paths: list[list[int]]) -> tuple[Array, Array, Array]:
    """Sequences as the indices, values and shape of a sparse tensor."""
    indices = [(b, i) for b, path in enumerate(paths) for i in range(len(path))]
    values = [v for path in paths for v in path]
    shape = [len(paths), max(map(len, paths), default=0)]
    return np.array(indices, np.int64).reshape(-1, 2), np.array(values, np.int64), np.array(shape, np.int64)


def _check_lengths(inputs: Array, lengths: Array) -> None:
    """What TensorFlow's decoders refuse, in its classes of errors."""
    steps, batch, _ = inputs.shape
    if not inputs.size:
        raise invalid(f"inputs must not be empty, got shape {list(inputs.shape)}")
    if lengths.ndim != 1:
        raise invalid(f"sequence_length must be a vector, got shape {list(lengths.shape)}")
    if len(lengths) != batch:
        raise errors.FailedPreconditionError(
            None, None, f"len(sequence_length) != batch_size: {len(lengths)} != {batch}"
        )
    if lengths.max() > steps:
        raise errors.FailedPreconditionError(None, None, f"sequence_length must be <= {steps}, got {lengths.tolist()}")


def _greedy_make(node: Any, env: Any) -> Any:
    merge, blank_index = node.attrs["merge_repeated"], node.attrs["blank_index"]

    def kernel(inputs: Array, lengths: Array) -> tuple[Array, Array, Array, Array]:
        _check_lengths(inputs, lengths)
        batch, classes = inputs.shape[1:]
        blank = blank_index % classes
        best = inputs.argmax(-1)
        paths, sums = [], np.zeros((batch, 1), inputs.dtype)
        for b in range(batch):
            chosen = best[: max(lengths[b], 0), b].tolist()
            sums[b] = -inputs[np.arange(len(chosen)), b, chosen].sum()
            paths.append([v for i, v in enumerate(chosen) if v != blank and not (merge and i and chosen[i - 1] == v)])
        return (*_listed(paths), sums)

    return kernel


def _decoded_shapes(n: Operation, count: int, sums: int) -> list[TensorShape]:
    batch = n.inputs[0].shape.with_rank(3)[1:2].merge_with(n.inputs[1].shape.with_rank(1))
    shapes = [[None, 2]] * count + [[None]] * count + [[2]] * count
    return [*map(TensorShape, shapes), batch.concatenate([sums])]


_NO_GRAD = NO_GRAD("which labels are best does not change smoothly")
op(
    "CTCGreedyDecoder",
    "inputs: E, sequence_length: int32; merge_repeated: bool = False, blank_index: int = -1 -> decoded_indices: int64, "
    "decoded_values: int64, decoded_shape: int64, log_probability: E",
    shape=lambda n: _decoded_shapes(n, 1, 1), make=_greedy_make, grad=_NO_GRAD, samples=[Sample(_INPUTS, ints(5, 3))],
)  # fmt: skip


def _search(logs: Array, width: int) -> list[tuple[tuple[int, ...], float]]:
    """Label sequences of one input, the most probable first, from a search that keeps `width` of them at each time."""
    blank = logs.shape[1] - 1
    beam: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -np.inf)}  # log p of those ending in blank, and not
    for row in logs:
        found: dict[tuple[int, ...], tuple[float, float]] = {}
        for path, (to_blank, to_label) in beam.items():
            total = np.logaddexp(to_blank, to_label)
            old = found.get(path, (-np.inf, -np.inf))
            stay = np.logaddexp(old[1], to_label + row[path[-1]]) if path else old[1]
            found[path] = (np.logaddexp(old[0], total + row[blank]), stay)
            for c in range(blank):
                start = to_blank if path and path[-1] == c else total
                more = (*path, c)
                old = found.get(more, (-np.inf, -np.inf))
                found[more] = (old[0], np.logaddexp(old[1], start + row[c]))
        best = sorted(found.items(), key=lambda item: -np.logaddexp(*item[1]))
        beam = dict(best[:width])
    scored = [(path, float(np.logaddexp(*ends))) for path, ends in beam.items()]
    return [(path, score) for path, score in scored if not np.isnan(score)]


def _beam_make(node: Any, env: Any) -> Any:
    width, top, merge = (node.attrs[k] for k in ("beam_width", "top_paths", "merge_repeated"))

    def kernel(inputs: Array, lengths: Array) -> tuple[Array, ...]:
        _check_lengths(inputs, lengths)
        batch = inputs.shape[1]
        paths: list[list[list[int]]] = [[] for _ in range(top)]
        sums = np.zeros((batch, top), inputs.dtype)
        for b in range(batch):
            found = _search(_log_softmax(inputs[: max(lengths[b], 0), b]), width)
            if len(found) < top:
                raise invalid(f"Less leaves in the beam search than requested: {len(found)} < {top}")
            for k, (path, score) in enumerate(found[:top]):
                kept = [v for i, v in enumerate(path) if not (merge and i and path[i - 1] == v)]
                paths[k].append(kept)
                sums[b, k] = score
        listed = [_listed(p) for p in paths]
        return (*(x[0] for x in listed), *(x[1] for x in listed), *(x[2] for x in listed), sums)

    return kernel


op(
    "CTCBeamSearchDecoder",
    "inputs: E, sequence_length: int32; beam_width: int, top_paths: int, merge_repeated: bool = True -> "
    "decoded_indices: int64*top_paths, decoded_values: int64*top_paths, decoded_shape: int64*top_paths, "
    "log_probability: E",
    shape=lambda n: _decoded_shapes(n, n.attrs["top_paths"], n.attrs["top_paths"]), make=_beam_make, grad=_NO_GRAD,
    samples=[Sample(_INPUTS, ints(5, 3), beam_width=4, top_paths=2)],
)  # fmt: skip


def ctc_loss(
    labels: SparseTensor | None = None, inputs: Any = None, sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False, ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False, time_major: bool = True, logits: Any = None,
) -> Tensor:  # fmt: skip
    """-log of the probability of each sequence of labels (rows of a SparseTensor of int32), over all alignments.

    inputs: logits [time, batch, classes] ([batch, time, classes] unless time_major); the last class is blank. Fails at
    run time for sequences too short for their labels. With `ignore_longer_outputs_than_inputs` those have a loss
    without end, or no loss and no gradient if there are more labels than times.
    """
    if not isinstance(labels, SparseTensor):
        raise TypeError("Expected labels (first argument) to be a SparseTensor")
    x = convert_to_tensor(inputs if logits is None else logits, name="inputs")
    if not time_major:
        x = raw.Transpose(x, np.array([1, 0, 2], np.int32))
    return raw.CTCLoss(
        x, labels.indices, labels.values, convert_to_tensor(sequence_length, dtypes.int32),
        preprocess_collapse_repeated=preprocess_collapse_repeated, ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )[0]  # fmt: skip


def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[list[SparseTensor], Tensor]:
    """([the best class at each time without blanks and repeats], minus the sum of its logits [batch, 1])."""
    *parts, sums = raw.CTCGreedyDecoder(
        inputs, convert_to_tensor(sequence_length, dtypes.int32), merge_repeated=merge_repeated,
        blank_index=-1 if blank_index is None else blank_index,
    )  # fmt: skip
    return [SparseTensor(*parts)], sums


def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1, merge_repeated: bool = True
) -> tuple[list[SparseTensor], Tensor]:
    """(the `top_paths` most probable sequences of labels, log of their probabilities [batch, top_paths]).

    merge_repeated: repeats are dropped from what was found, even those with a blank between them, as in TensorFlow.
    """
    *parts, sums = raw.CTCBeamSearchDecoder(
        inputs, convert_to_tensor(sequence_length, dtypes.int32), beam_width=beam_width, top_paths=top_paths,
        merge_repeated=merge_repeated,
    )  # fmt: skip
    return [SparseTensor(*parts[k::top_paths]) for k in range(top_paths)], sums


def ctc_beam_search_decoder_v2(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """ctc_beam_search_decoder that keeps repeats."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, False)


def ctc_loss_v2(
    labels: Any, logits: Any, label_length: Any, logit_length: Any, logits_time_major: bool = True, unique: Any = None,
    blank_index: int | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """ctc_loss with labels as rows of a matrix, of which `label_length` count, or as a SparseTensor.

    The blank is class `blank_index`, by default the first for a matrix and the last for a SparseTensor. `unique` is
    accepted: the loss needs no help from it.
    """
    logits = convert_to_tensor(logits, name="logits")
    known = (dims(logits) or (None,))[-1]
    with logits.graph.name_scope(name or "ctc_loss_dense"):
        classes: Any = raw.Shape(logits)[-1] if known is None else known
        sparse = isinstance(labels, SparseTensor)
        blank = ((-1 if sparse else 0) if blank_index is None else blank_index) % classes
        if not sparse:
            labels = convert_to_tensor(labels, dtypes.int32)
            counted = raw.Less(raw.Range(0, raw.Shape(labels)[1], 1), raw.ExpandDims(label_length, 1))
            at = raw.Where(counted)
            labels = SparseTensor(at, raw.GatherNd(labels, at), raw.Cast(raw.Shape(labels), DstT=dtypes.int64))
        if known is None or blank != known - 1:  # the blank moves to the end, what was behind it one down
            order = raw.ConcatV2([raw.Range(0, blank, 1), raw.Range(blank + 1, classes, 1), raw.Pack([blank])], 0)
            logits = raw.GatherV2(logits, order, -1)
            behind = raw.Cast(raw.Greater(labels.values, blank), DstT=dtypes.int32)
            labels = SparseTensor(labels.indices, labels.values - behind, labels.dense_shape)
        return ctc_loss(labels, logits, logit_length, time_major=logits_time_major)


def ctc_unique_labels(labels: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(the different labels of each row as they come, then zeros; the place of each label among them)."""
    made: tuple[Tensor, Tensor] = raw.CTCUniqueLabels(labels, name=name or "ctc_unique_labels")
    return made


def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(each row without labels that repeat the one before, then zeros; how many are left of its `seq_length`)."""
    labels = convert_to_tensor(labels, name="labels")
    made: tuple[Tensor, Tensor] = raw.CollapseRepeated(labels, seq_length, name=name or "collapse_repeated_labels")
    return made


def _unique_rows(labels: Array) -> tuple[Array, Array]:
    found, places = np.zeros(labels.shape, np.int64), np.zeros(labels.shape, np.int32)
    for row, out, place in zip(labels, found, places):
        known: dict[Any, int] = {}
        place[:] = [known.setdefault(v, len(known)) for v in row.tolist()]
        out[: len(known)] = list(known)
    return found, places


def _collapsed(labels: Array, lengths: Array) -> tuple[Array, Array]:
    rows = []
    for row, length in zip(labels.tolist(), lengths.tolist()):
        rows.append([v for i, v in enumerate(row[:length]) if not i or row[i - 1] != v])
    out = np.zeros((len(rows), max(map(len, rows), default=0)), labels.dtype)
    for to, kept in zip(out, rows):
        to[: len(kept)] = kept
    return out, np.array([len(r) for r in rows], lengths.dtype)


def _collapsed_shape(n: Operation) -> list[TensorShape]:
    labels, lengths = (constant_value(t) for t in n.inputs)
    longest = None if labels is None or lengths is None else _collapsed(labels, lengths)[0].shape[1]
    return [n.inputs[0].shape.with_rank(2)[:1].concatenate([longest]), n.inputs[1].shape.with_rank(1)]


_ROWS = np.array([[1, 1, 2, 1], [3, 3, 3, 0]], np.int32)
op(
    "CTCUniqueLabels", "labels: Z -> y: int64, idx: int32", shape=lambda n: [n.inputs[0].shape.with_rank(2)] * 2,
    kernel=_unique_rows, grad=NO_GRAD("integers"), samples=[Sample(_ROWS)],
)  # fmt: skip
op(
    "CollapseRepeated", "labels: T, seq_length: I -> collapsed: T, new_seq_length: I",
    shape=_collapsed_shape,
    kernel=_collapsed, grad=NO_GRAD("labels"), samples=[Sample(_ROWS, ints(4, 3))],
)  # fmt: skip
