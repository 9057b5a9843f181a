"""Losses over a few sampled classes, for when there are very many."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.ops.candidates import compute_accidental_hits, log_uniform_candidate_sampler
from dtfzmq.ops.constants import stop_gradient
from dtfzmq.ops.embedding import embedding_lookup
from dtfzmq.ops.matmul import matmul
from dtfzmq.ops.nn import sigmoid_cross_entropy_with_logits, softmax_cross_entropy_with_logits_v2
from dtfzmq.ops.raw import raw

_LEAST = np.float32(np.finfo(np.float32).min)


def _logits(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int,
    sampled_values: Any, remove_accidental_hits: bool, partition_strategy: str, seed: int | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(logits, labels) [batch, num_true + num_sampled], with log of the expected counts subtracted."""
    inputs = convert_to_tensor(inputs, name="inputs")
    labels = convert_to_tensor(labels, name="labels")
    kind = inputs.dtype.base_dtype
    with inputs.graph.name_scope("compute_sampled_logits"):
        if labels.dtype.base_dtype is not dtypes.int64:
            labels = raw.Cast(labels, DstT=dtypes.int64)
        flat = raw.Reshape(labels, np.array([-1], np.int32))
        if sampled_values is None:
            sampled_values = log_uniform_candidate_sampler(labels, num_true, num_sampled, True, num_classes, seed)
        sampled, true_counts, sampled_counts = (stop_gradient(s) for s in sampled_values)
        sampled = raw.Cast(sampled, DstT=dtypes.int64)
        ids = raw.ConcatV2([flat, sampled], 0)
        rows = embedding_lookup(weights, ids, partition_strategy=partition_strategy)
        shifts = embedding_lookup(biases, ids, partition_strategy=partition_strategy)
        rows, shifts = (t if t.dtype.base_dtype is kind else raw.Cast(t, DstT=kind) for t in (rows, shifts))
        count = raw.Shape(flat)
        zero, rest = np.zeros(1, np.int32), np.full(1, -1, np.int32)
        true_rows = raw.Slice(rows, np.zeros(2, np.int32), raw.ConcatV2([count, rest], 0))
        sampled_rows = raw.Slice(rows, raw.ConcatV2([count, zero], 0), np.full(2, -1, np.int32))
        true_shifts, sampled_shifts = raw.Slice(shifts, zero, count), raw.Slice(shifts, count, rest)
        sampled_logits = matmul(inputs, sampled_rows, transpose_b=True) + sampled_shifts
        width = raw.Shape(true_rows)[1:2]
        by_row = raw.Reshape(true_rows, raw.ConcatV2([np.array([-1, num_true], np.int32), width], 0))
        dots = raw.Sum(raw.ExpandDims(inputs, 1) * by_row, np.array([2], np.int32))
        true_logits = dots + raw.Reshape(true_shifts, np.array([-1, num_true], np.int32))
        if remove_accidental_hits:
            sampled_logits = sampled_logits + raw.Cast(_hit_mask(labels, sampled, num_true, num_sampled), DstT=kind)
        true_logits = true_logits - raw.Log(raw.Cast(true_counts, DstT=kind))
        sampled_logits = sampled_logits - raw.Log(raw.Cast(sampled_counts, DstT=kind))
        ones = raw.OnesLike(true_logits) / convert_to_tensor(float(num_true), dtype=kind)
        return (
            raw.ConcatV2([true_logits, sampled_logits], 1, name="out_logits"),
            raw.ConcatV2([ones, raw.ZerosLike(sampled_logits)], 1, name="out_labels"),
        )


def _hit_mask(labels: Tensor, sampled: Tensor, num_true: int, num_sampled: int) -> Tensor:
    """[batch, num_sampled]: the least number where the sample is a true class of the row, else 0."""
    hits = compute_accidental_hits(labels, sampled, num_true)
    at = raw.Pack([hits.indices, raw.Cast(hits.ids, DstT=dtypes.int32)], axis=1)
    shape = raw.ConcatV2([raw.Shape(labels)[:1], np.array([num_sampled], np.int32)], 0)
    return raw.Maximum(raw.ScatterNd(at, hits.weights, shape), _LEAST)  # a class may be true twice


def nce_loss(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int = 1,
    sampled_values: Any = None, remove_accidental_hits: bool = False, partition_strategy: str = "mod",
    name: str | None = "nce_loss",
) -> Tensor:  # fmt: skip
    """The noise-contrastive loss per example: true classes against `num_sampled` that are drawn.

    `weights` [num_classes, dim] may be a list of parts; `labels` are [batch, num_true], `inputs` [batch, dim].
    `sampled_values` is what a sampler gave; else they are drawn by log_uniform_candidate_sampler.
    """
    inputs = convert_to_tensor(inputs, name="inputs")
    with inputs.graph.name_scope(name or "nce_loss"):
        logits, targets = _logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
                                  remove_accidental_hits, partition_strategy, None)  # fmt: skip
        losses = sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name="sampled_losses")
        return raw.Sum(losses, np.array([1], np.int32))


def sampled_softmax_loss(
    weights: Any, biases: Any, labels: Any, inputs: Any, num_sampled: int, num_classes: int, num_true: int = 1,
    sampled_values: Any = None, remove_accidental_hits: bool = True, partition_strategy: str = "mod",
    name: str | None = "sampled_softmax_loss", seed: int | None = None,
) -> Tensor:  # fmt: skip
    """The softmax cross-entropy per example over the true classes and `num_sampled` that are drawn.

    Arguments are those of nce_loss. It underestimates the full loss, and is for training alone.
    """
    inputs = convert_to_tensor(inputs, name="inputs")
    with inputs.graph.name_scope(name or "sampled_softmax_loss"):
        logits, targets = _logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
                                  remove_accidental_hits, partition_strategy, seed)  # fmt: skip
        return softmax_cross_entropy_with_logits_v2(labels=stop_gradient(targets), logits=logits)
