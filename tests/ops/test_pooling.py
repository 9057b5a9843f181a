"""Pooling against windows looked at one by one, and what it hands back through ties."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph
from dtfzmq.ops import blocks, pool_kernels, pooling, windows
from dtfzmq.ops.gradients import gradients
from tests.kit.evaluate import evaluate

RNG = np.random.default_rng(6)


def _windows(axes):
    """(place, slices of the input) of each window."""
    for place in product(*(range(a.out) for a in axes)):
        yield place, tuple(
            slice(max(p * a.stride - a.before, 0), min(p * a.stride - a.before + a.window, a.size))
            for p, a in zip(place, axes)
        )


def _routed(x, g, axes):
    """Each window's g to its first largest element, row by row."""
    out = np.zeros_like(x)
    for place, at in _windows(axes):
        part = x[at]
        where = np.unravel_index(np.argmax(part), part.shape)
        out[tuple(s.start + i for s, i in zip(at, where))] += g[place]
    return out


CASES = [
    (k, s, padding)
    for k in [(1, 2, 2, 1), (1, 3, 3, 1), (1, 3, 2, 1), (1, 1, 1, 2), (1, 2, 2, 2)]
    for s in [(1, 1, 1, 1), (1, 2, 2, 1), (1, 3, 3, 1), (1, 1, 1, 2), (1, 2, 2, 2)]
    for padding in ("SAME", "VALID")
]


@pytest.mark.parametrize("ksize, strides, padding", CASES)
@pytest.mark.parametrize("shape", [(2, 6, 4, 2), (1, 7, 5, 3)])
def test_kernels_agree_with_windows_one_by_one(ksize, strides, padding, shape):
    axes = [windows.axis(d, k, s, 1, padding) for d, k, s in zip(shape, ksize, strides)]
    x = RNG.integers(0, 4, shape).astype(float)  # few values, so that windows have ties
    top, mean = np.zeros([a.out for a in axes]), np.zeros([a.out for a in axes])
    for place, at in _windows(axes):
        top[place], mean[place] = x[at].max(), x[at].mean()
    np.testing.assert_array_equal(pool_kernels.maximum(x, axes), top)
    np.testing.assert_allclose(pool_kernels.average(x, axes), mean)
    g = RNG.standard_normal(top.shape)
    np.testing.assert_allclose(pool_kernels.maximum_gradient(x, top, g, axes), _routed(x, g, axes))
    np.testing.assert_allclose(np.sum(pool_kernels.average_gradient(g, axes) * x), np.sum(g * mean))
    gg = RNG.standard_normal(shape)
    # the second derivative is the transpose of the first
    np.testing.assert_allclose(
        np.sum(pool_kernels.maximum_gradient_gradient(x, top, gg, axes) * g), np.sum(_routed(x, g, axes) * gg)
    )
    places = pool_kernels.places_of_maximum(x, top, axes, True, np.int64)
    np.testing.assert_array_equal(x.reshape(-1)[places], top)


def test_maximum_of_negative_numbers_is_not_the_padding():
    with Graph().as_default():
        for dtype in (np.float32, np.float16, np.int32):
            x = np.full((1, 3, 3, 1), -5, dtype)
            got = evaluate(pooling.max_pool(convert_to_tensor(x), 2, 2, "SAME"))
            assert got.dtype == dtype
            assert (got == -5).all()


def test_layouts_and_ranks_agree():
    x = RNG.standard_normal((2, 5, 6, 3))
    with Graph().as_default():
        plain = pooling.max_pool(x, [1, 2, 3, 1], [1, 1, 2, 1], "SAME")
        turned = pooling.max_pool(np.moveaxis(x, -1, 1), [2, 3], [1, 2], "SAME", data_format="NCHW")
        deep = pooling.max_pool3d(x[:, None], [1, 2, 3], [1, 1, 2], "SAME")
        by_name = pooling.pool(x, [2, 3], "MAX", "SAME", strides=[1, 2])
        line = pooling.avg_pool1d(x[:, :, 0], 2, 2, "VALID")
        flat = pooling.avg_pool(x[:, :, :1], [2, 1], [2, 1], "VALID")
        values = evaluate([plain, turned, deep, by_name, line, flat])
        for other in (np.moveaxis(values[1], 1, -1), values[2][:, 0], values[3]):
            np.testing.assert_array_equal(other, values[0])
        np.testing.assert_allclose(values[4], values[5][:, :, 0])
        for t, value in zip([plain, turned, deep, by_name, line, flat], values):
            assert t.shape.as_list() == list(value.shape)


def test_argmax_has_gradients_and_counts_within_the_entry():
    x = RNG.standard_normal((2, 4, 4, 3))
    with Graph().as_default():
        t = convert_to_tensor(x)
        for batch in (False, True):
            found = pooling.max_pool_with_argmax(t, [1, 2, 2, 1], [1, 2, 2, 1], "SAME", include_batch_in_index=batch)
            plain = pooling.max_pool(t, 2, 2, "SAME")
            g = RNG.standard_normal((2, 2, 2, 3))
            (one,), (other,) = gradients(found.output, [t], [g]), gradients(plain, [t], [g])
            values = evaluate([found.output, found.argmax, one, other])
            rows = [x.reshape(-1)] * 2 if batch else list(x.reshape(2, -1))
            picked = np.stack([row[places] for row, places in zip(rows, values[1])])
            np.testing.assert_array_equal(picked, values[0])
            np.testing.assert_allclose(values[2], values[3])


def test_dilated_pooling_looks_past_neighbours():
    x = RNG.standard_normal((1, 6, 7, 2))
    with Graph().as_default():
        got = evaluate(pooling.pool(x, [2, 2], "MAX", "VALID", dilation_rate=[2, 3]))
        want = np.maximum(np.maximum(x[:, :-2, :-3], x[:, 2:, :-3]), np.maximum(x[:, :-2, 3:], x[:, 2:, 3:]))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda x: pooling.max_pool(x, [1, 9, 9, 1], 1, "VALID"), "subtracting 9 from 4"),
        (lambda x: pooling.max_pool(x, [2, 2, 2, 1], 1, "SAME"), "batch dimension"),
        (lambda x: pooling.max_pool(x, 2, 2, "FULL"), "'FULL' not in"),
        (lambda x: pooling.avg_pool(x, [1, 2, 2], 2, "SAME"), "ksize should be of length 1, 2 or 4"),
        (lambda x: pooling.pool(x, [2, 2], "MIN", "SAME"), "'MAX' or 'AVG'"),
        (lambda x: pooling.pool(x, [2, 2], "MAX", "SAME", dilation_rate=[2, 2]), "SAME padding"),
        (lambda x: pooling.max_pool3d(x, 2, 2, "SAME"), "rank 5 but is rank 4"),
        (lambda x: blocks.space_to_depth(x, 3), "divisible by 3 but is 4"),
        (lambda x: blocks.space_to_batch(x, [[0, 1], [0, 0]], 2), "divisible by 2 but is 5"),
    ],
)
def test_what_does_not_fit_is_refused(make, text):
    with Graph().as_default():
        with pytest.raises(ValueError, match=text):
            make(convert_to_tensor(np.zeros((1, 4, 4, 2))))


def test_blocks_move_and_come_back():
    x = RNG.standard_normal((2, 4, 6, 3))
    with Graph().as_default():
        depth = blocks.space_to_depth(x, 2)
        batch = blocks.space_to_batch_nd(x, [2, 3], [[1, 1], [0, 3]])
        values = evaluate(
            [depth, blocks.depth_to_space(depth, 2), batch, blocks.batch_to_space_nd(batch, [2, 3], [[1, 1], [0, 3]])]
        )
        np.testing.assert_array_equal(values[0][0, 0, 0], x[0, :2, :2].reshape(-1))
        np.testing.assert_array_equal(values[1], x)
        np.testing.assert_array_equal(values[3], x)
        assert values[2].shape == (12, 3, 3, 3)
        np.testing.assert_array_equal(values[2][0, 1:, :2], x[0, 1::2, ::3])  # the padding came first
        padded, crops = blocks.required_space_to_batch_paddings([5, 7], [2, 3], [[1, 0], [0, 1]])
        assert evaluate(padded).tolist() == [[1, 0], [0, 2]]
        assert evaluate(crops).tolist() == [[0, 0], [0, 1]]
