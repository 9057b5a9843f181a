"""Candidate samplers and the losses over what they draw; rows of embeddings in parts."""

from __future__ import annotations

import numpy as np
import pytest

from dtfzmq.base import errors
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.ops import candidates, embedding, sampled_losses
from dtfzmq.ops.constants import constant
from dtfzmq.ops.gradients import gradients
from tests.kit.evaluate import Env, evaluate

TRUE = np.array([[0, 3], [2, 2]], np.int64)
RNG = np.random.default_rng(9)


def _draws(sampler, runs, **options):
    with Graph().as_default() as graph:
        graph.seed = 5
        made = sampler(TRUE, 2, unique=options.pop("unique", False), **options)
        env = Env()
        return [evaluate(list(made), env=env) for _ in range(runs)]


@pytest.mark.parametrize(
    "sampler, options, odds",
    [
        (candidates.uniform_candidate_sampler, {"range_max": 4}, [0.25] * 4),
        (candidates.log_uniform_candidate_sampler, {"range_max": 4}, np.log([2, 3 / 2, 4 / 3, 5 / 4]) / np.log(5)),
        (candidates.fixed_unigram_candidate_sampler,
         {"range_max": 4, "unigrams": [4.0, 0.0, 1.0], "num_reserved_ids": 1, "distortion": 0.5},
         np.array([0, 2, 0, 1]) / 3),
        (candidates.fixed_unigram_candidate_sampler,
         {"range_max": 4, "unigrams": [4.0, 3.0, 1.0, 1.0], "num_shards": 2, "shard": 1}, [0, 0.75, 0, 0.25]),
    ],
)  # fmt: skip
def test_frequencies_follow_the_law(sampler, options, odds):
    drawn = _draws(sampler, 20, num_sampled=500, **options)
    counts = np.bincount(np.concatenate([d[0] for d in drawn]), minlength=4)
    np.testing.assert_allclose(counts / counts.sum(), odds, atol=0.02)
    np.testing.assert_allclose(drawn[0][1], np.asarray(odds)[TRUE] * 500, rtol=1e-5)
    np.testing.assert_allclose(drawn[0][2], np.asarray(odds)[drawn[0][0]] * 500, rtol=1e-5)
    assert (drawn[0][0] != drawn[1][0]).any()


def test_distinct_candidates_and_their_expected_counts():
    drawn = _draws(candidates.log_uniform_candidate_sampler, 300, num_sampled=3, range_max=6, unique=True)
    seen = np.zeros(6)
    expected = []
    for classes, true, _ in drawn:
        assert len(set(classes.tolist())) == 3
        seen[classes] += 1
        expected.append(true[0, 0])
    assert np.mean(expected) == pytest.approx(seen[0] / 300, abs=0.07)


def test_learned_sampler_follows_what_it_saw():
    drawn = _draws(candidates.learned_unigram_candidate_sampler, 200, num_sampled=50, range_max=4)
    np.testing.assert_allclose(drawn[0][1], np.full((2, 2), 12.5))
    np.testing.assert_allclose(drawn[-1][1], 50 * np.array([[200, 200], [399, 399]]) / 800, rtol=1e-6)
    late = np.bincount(np.concatenate([d[0] for d in drawn[100:]]), minlength=4)
    assert late[2] > late[0] > 20 * late[1]


def test_same_seed_same_candidates():
    first, second = (_draws(candidates.uniform_candidate_sampler, 2, num_sampled=9, range_max=99) for _ in range(2))
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a[0], b[0])


def test_unigrams_of_a_file(tmp_path):
    path = tmp_path / "vocab.csv"
    path.write_text("the,3\nof,1\n")
    drawn = _draws(candidates.fixed_unigram_candidate_sampler, 1, num_sampled=400, range_max=4, vocab_file=str(path),
                   num_reserved_ids=2)  # fmt: skip
    assert set(drawn[0][0].tolist()) == {2, 3}
    np.testing.assert_allclose(drawn[0][1], [[0, 100], [300, 300]])


def test_what_cannot_be_sampled_is_refused():
    with Graph().as_default():
        with pytest.raises(ValueError, match="at most range_max 4"):
            candidates.uniform_candidate_sampler(TRUE, 2, 5, True, 4)
        with pytest.raises(ValueError, match="vocab_file or unigrams"):
            candidates.fixed_unigram_candidate_sampler(TRUE, 2, 2, False, 4)
        outside = candidates.uniform_candidate_sampler(TRUE, 2, 2, False, 3)
        with pytest.raises(errors.InvalidArgumentError, match="out of range"):
            evaluate(outside.sampled_candidates)
        rare = candidates.fixed_unigram_candidate_sampler(TRUE, 2, 3, True, 4, unigrams=[1, 0, 0, 2])
        with pytest.raises(errors.InvalidArgumentError, match="3 distinct classes wanted, 2 are possible"):
            evaluate(rare.sampled_candidates)


def test_accidental_hits_are_named():
    with Graph().as_default():
        hits = candidates.compute_accidental_hits(TRUE, constant([2, 9, 0], "int64"), 2)
        rows, ids, weights = evaluate(list(hits))
        assert list(zip(rows.tolist(), ids.tolist())) == [(0, 2), (1, 0), (1, 0)]
        assert (weights < -1e38).all()


def _by_hand(weights, biases, labels, inputs, sampled, expected, hits):
    """Logits of the true and the sampled classes, written out."""
    classes, true_counts, counts = sampled
    true = np.array([[x @ weights[c] + biases[c] for c in row] for x, row in zip(inputs, labels)])
    other = inputs @ weights[classes].T + biases[classes] - np.log(counts)
    if hits:
        other[(classes[None, :, None] == labels[:, None, :]).any(-1)] = -np.inf
    return np.concatenate([true - np.log(true_counts), other], 1)


@pytest.mark.parametrize("hits", [True, False])
@pytest.mark.parametrize("parts", [1, 2])
def test_sampled_losses(hits, parts):
    labels = np.array([[0, 3], [2, 2], [5, 1]], np.int64)
    weights, biases, inputs = RNG.standard_normal((6, 4)), RNG.standard_normal(6), RNG.standard_normal((3, 4))
    sampled = np.array([2, 4, 0]), np.full((3, 2), 0.3), np.array([0.5, 0.25, 0.7])
    logits = _by_hand(weights, biases, labels, inputs, sampled, None, hits)
    targets = np.concatenate([np.full((3, 2), 0.5), np.zeros((3, 3))], 1)
    with Graph().as_default():
        table = [convert_to_tensor(w) for w in (weights[: 6 // parts], weights[6 // parts :])[:parts]]
        given = (
            constant(sampled[0], "int64"), constant(sampled[1], "float64"), constant(sampled[2], "float64"),
        )  # fmt: skip
        options = {"num_true": 2, "sampled_values": given, "remove_accidental_hits": hits, "partition_strategy": "div"}
        nce = sampled_losses.nce_loss(table, biases, labels, inputs, 3, 6, **options)
        soft = sampled_losses.sampled_softmax_loss(table, biases, labels, inputs, 3, 6, **options)
        got_nce, got_soft = evaluate([nce, soft])
        with np.errstate(over="ignore", invalid="ignore"):
            each = np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits))) - np.where(targets > 0, logits * 0.5, 0)
            want = -np.sum(np.where(targets > 0, 0.5 * logits, 0), 1) + np.log(np.exp(logits).sum(1))
        np.testing.assert_allclose(got_nce, each.sum(1))
        np.testing.assert_allclose(got_soft, want)
        found = gradients([nce, soft], table)
        assert all(type(g).__name__ == "IndexedSlices" for g in found)


def test_sampled_losses_draw_for_themselves():
    with Graph().as_default() as graph:
        graph.seed = 3
        weights, inputs = RNG.standard_normal((50, 4)).astype("f"), RNG.standard_normal((2, 4)).astype("f")
        labels = np.array([[1], [2]])
        for loss in (sampled_losses.nce_loss, sampled_losses.sampled_softmax_loss):
            value = evaluate(loss(weights, np.zeros(50, "f"), labels, inputs, 10, 50))
            assert value.shape == (2,)
            assert np.isfinite(value).all()


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("limit", [None, 1.0])
def test_embeddings_in_parts_are_the_whole_table(strategy, limit):
    table = RNG.standard_normal((7, 3))
    parts = [table[i::3] for i in range(3)] if strategy == "mod" else [table[:3], table[3:5], table[5:]]
    ids = np.array([[0, 6, 3], [5, 2, 2]])
    want = table[ids]
    if limit:
        norms = np.linalg.norm(want, axis=-1, keepdims=True)
        want = want * np.minimum(1, limit / norms)
    with Graph().as_default():
        got = embedding.embedding_lookup(parts, ids, partition_strategy=strategy, max_norm=limit)
        assert got.shape.as_list() == [2, 3, 3]
        np.testing.assert_allclose(evaluate(got), want)


def _sparse(indices, values, shape):
    return SparseTensor(np.array(indices), np.array(values), np.array(shape))


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [True, False])
def test_sparse_rows_are_combined(combiner, weighted):
    table, where = RNG.standard_normal((6, 4)), [[0, 0], [0, 2], [1, 1], [2, 0], [2, 1]]
    ids, weights = np.array([1, 3, 0, 5, 2]), np.array([0.5, 2.0, 1.0, 0.3, 1.2]) if weighted else np.ones(5)
    want = np.zeros((3, 4))
    for row in range(3):
        mine = [i for i, at in enumerate(where) if at[0] == row]
        over = {"sum": 1, "mean": weights[mine].sum(), "sqrtn": np.sqrt((weights[mine] ** 2).sum())}[combiner]
        want[row] = weights[mine] @ table[ids[mine]] / over
    with Graph().as_default():
        shares = _sparse(where, weights, [3, 3]) if weighted else None
        given = _sparse(where, ids, [3, 3])
        whole = embedding.embedding_lookup_sparse(table, given, shares, combiner=combiner)
        parts = embedding.embedding_lookup_sparse([table[::2], table[1::2]], given, shares, combiner=combiner)
        for got in evaluate([whole, parts]):
            np.testing.assert_allclose(got, want)


def test_rows_without_ids_are_safe():
    table, where = RNG.standard_normal((6, 4)), [[0, 0, 0], [0, 0, 1], [1, 1, 0]]
    with Graph().as_default():
        ids = _sparse(where, [1, -2, 3], [2, 2, 3])
        zeros = embedding.safe_embedding_lookup_sparse([table], ids)
        fifth = embedding.safe_embedding_lookup_sparse([table], ids, default_id=5)
        none, some = evaluate([zeros, fifth])
        np.testing.assert_allclose(none, [[table[1], np.zeros(4)], [np.zeros(4), table[3]]])
        np.testing.assert_allclose(some, [[table[1], table[5]], [table[5], table[3]]])
        with pytest.raises(TypeError, match="sp_ids must be SparseTensor"):
            embedding.embedding_lookup_sparse(table, np.array([1]), None)
        with pytest.raises(ValueError, match="combiner must be one of"):
            embedding.embedding_lookup_sparse(table, ids, None, combiner="most")
