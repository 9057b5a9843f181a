"""Convolutions against sums written out, over the ways in which they can be cut, padded and laid out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dtfzmq.base import errors
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph
from dtfzmq.ops import conv_kernels, conv_layers, depthwise_kernels, windows
from dtfzmq.ops.constants import placeholder
from dtfzmq.ops.gradients import gradients
from tests.kit.evaluate import evaluate

RNG = np.random.default_rng(5)


def _written_out(x, w, axes, depthwise=False):
    """The definition: a sum per place."""
    pad = [(0, 0), *((a.before, a.after) for a in axes), (0, 0)]
    x = np.pad(x, pad)
    channels = w.shape[-1] * (w.shape[-2] if depthwise else 1)
    out = np.zeros((x.shape[0], *(a.out for a in axes), channels))
    for place in product(*(range(a.out) for a in axes)):
        for offset in product(*(range(a.window) for a in axes)):
            at = tuple(p * a.stride + o * a.dilation for p, o, a in zip(place, offset, axes))
            pixel = np.moveaxis(x, 0, -2)[at]
            if depthwise:
                part = (pixel[:, :, None] * w[offset]).reshape(len(x), -1)
            else:
                part = pixel @ w[offset]
            np.moveaxis(out, 0, -2)[place] += part
    return out


def _axes(sizes, filters, strides, dilations, padding):
    return [windows.axis(*one, padding) for one in zip(sizes, filters, strides, dilations)]


GEOMETRIES = [
    ((5,), (3,), (1,), (1,)),
    ((7, 6), (3, 2), (1, 1), (1, 1)),
    ((7, 6), (3, 3), (2, 3), (1, 1)),
    ((9, 8), (3, 2), (1, 1), (2, 3)),
    ((3, 2), (5, 4), (1, 1), (1, 1)),
    ((4, 5), (1, 1), (2, 2), (1, 1)),
    ((9, 7), (4, 3), (3, 2), (2, 2)),
    ((4, 3, 5), (2, 3, 2), (1, 2, 1), (1, 1, 2)),
]


@pytest.mark.parametrize("deep, run", [(1, 0), (10**6, 0), (10**6, 10**6)])
@pytest.mark.parametrize("buffer, small", [(1, 1), (700, 200), (1 << 21, 500), (1 << 21, 10**6)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("sizes, filters, strides, dilations", GEOMETRIES)
def test_kernels_are_sums_and_their_transposes(
    sizes, filters, strides, dilations, padding, buffer, small, deep, run, monkeypatch
):
    """Whatever the buffer is, rows of one entry or several entries at once, and however products are stacked; for
    patches that span the windows or all but their first axis, and that lie either way."""
    monkeypatch.setattr(conv_kernels, "_stacked", conv_kernels._stacked.__wrapped__)  # sees what is set here
    monkeypatch.setattr(conv_kernels, "_DEEP", deep)
    monkeypatch.setattr(conv_kernels, "_RUN", run)
    monkeypatch.setattr(conv_kernels, "_BUFFER", buffer)
    monkeypatch.setattr(conv_kernels, "_SMALL", small)
    monkeypatch.setattr(conv_kernels, "_TALL", 8)
    monkeypatch.setattr(depthwise_kernels, "_BLOCK", buffer)
    axes = _axes(sizes, filters, strides, dilations, padding) if padding == "SAME" or all(
        (f - 1) * d < s for s, f, d in zip(sizes, filters, dilations)
    ) else _axes(sizes, (1,) * len(sizes), strides, dilations, padding)  # fmt: skip
    for depthwise in (False, True) if len(sizes) > 1 else (False,):
        x = RNG.standard_normal((3, *sizes, 4))
        w = RNG.standard_normal((*(a.window for a in axes), 4, 3))
        names = ("forward", "input_gradient", "filter_gradient")
        forward, by_input, by_filter = (
            getattr(depthwise_kernels if depthwise else conv_kernels, n) for n in names
        )
        y = forward(x, w, axes)
        np.testing.assert_allclose(y, _written_out(x, w, axes, depthwise), atol=1e-12)
        g = RNG.standard_normal(y.shape)
        # <g, conv(x, w)> is linear in x and in w: the derivatives are what it is linear with
        np.testing.assert_allclose(np.sum(by_input(g, w, axes) * x), np.sum(g * y))
        np.testing.assert_allclose(np.sum(by_filter(x, g, axes) * w), np.sum(g * y))
        assert by_input(g, w, axes).shape == x.shape
        assert by_filter(x, g, axes).shape == w.shape


def test_nothing_in_nothing_out():
    axes = _axes((4, 4), (3, 3), (1, 1), (1, 1), "SAME")
    w = np.ones((3, 3, 2, 5))
    assert conv_kernels.forward(np.zeros((0, 4, 4, 2)), w, axes).shape == (0, 4, 4, 5)
    assert not conv_kernels.filter_gradient(np.zeros((0, 4, 4, 2)), np.zeros((0, 4, 4, 5)), axes).any()
    assert conv_kernels.input_gradient(np.zeros((0, 4, 4, 5)), w, axes).shape == (0, 4, 4, 2)


@pytest.mark.parametrize("padding", ["SAME", "VALID", [[0, 0], [2, 1], [0, 3], [0, 0]]])
def test_channels_first_is_the_same_turned(padding):
    x, w = RNG.standard_normal((2, 6, 5, 3)), RNG.standard_normal((3, 2, 3, 4))
    turned = np.moveaxis(x, -1, 1)
    second = padding if isinstance(padding, str) else [padding[0], padding[3], padding[1], padding[2]]
    with Graph().as_default():
        last = conv_layers.conv2d(x, w, [1, 2, 1, 1], padding)
        first = conv_layers.conv2d(turned, w, [1, 1, 2, 1], second, data_format="NCHW")
        a, b = evaluate([last, first])
        np.testing.assert_allclose(np.moveaxis(a, -1, 1), b)
        assert first.shape.as_list() == list(b.shape)


def test_transpose_maps_back_and_has_gradients():
    with Graph().as_default():
        y = convert_to_tensor(RNG.standard_normal((2, 3, 4, 5)))
        w = convert_to_tensor(RNG.standard_normal((3, 3, 2, 5)))
        x = conv_layers.conv2d_transpose(y, w, [2, 6, 8, 2], 2)
        assert x.shape.as_list() == [2, 6, 8, 2]
        forth = conv_layers.conv2d(x, w, 2, "SAME")
        gy, gw = gradients(x, [y, w], [x])
        values = evaluate([x, y, w, forth, gy, gw])
        np.testing.assert_allclose(values[4], values[3])  # the derivative of the transpose is the convolution
        np.testing.assert_allclose(np.sum(values[5] * values[2]), np.sum(values[0] ** 2))


def test_separable_is_depthwise_then_pointwise():
    with Graph().as_default():
        x, deep = RNG.standard_normal((2, 5, 5, 3)), RNG.standard_normal((3, 3, 3, 2))
        point = RNG.standard_normal((1, 1, 6, 4))
        made = conv_layers.separable_conv2d(x, deep, point, [1, 1, 1, 1], "SAME")
        both = conv_layers.conv2d(conv_layers.depthwise_conv2d(x, deep, [1, 1, 1, 1], "SAME"), point, 1, "SAME")
        np.testing.assert_allclose(*evaluate([made, both]))


def test_holes_are_zeros_in_the_filter():
    with Graph().as_default():
        x, w = RNG.standard_normal((2, 9, 9, 3)), RNG.standard_normal((3, 3, 3, 4))
        full = np.zeros((5, 5, 3, 4))
        full[::2, ::2] = w
        made = [
            conv_layers.atrous_conv2d(x, w, 2, "SAME"),
            conv_layers.convolution(x, w, "SAME", dilation_rate=[2, 2]),
            conv_layers.conv2d(x, full, 1, "SAME"),
        ]
        first, second, third = evaluate(made)
        np.testing.assert_allclose(first, third)
        np.testing.assert_allclose(second, third)


def test_half_precision_sums_in_single():
    with Graph().as_default():
        x = np.full((1, 1, 1, 4096), 1, np.float16)
        w = np.full((1, 1, 4096, 1), 0.5, np.float16)
        got = evaluate(conv_layers.conv2d(x, w, 1, "VALID"))
        assert got.dtype == np.float16
        assert got.item() == 2048


def test_shapes_as_far_as_they_are_known():
    with Graph().as_default():
        x = placeholder("float32", [None, None, 28, 3])
        w = convert_to_tensor(np.zeros((5, 5, 3, 8), np.float32))
        assert conv_layers.conv2d(x, w, [1, 2, 2, 1], "SAME").shape.as_list() == [None, None, 14, 8]
        assert conv_layers.conv2d(x, w, [1, 2, 2, 1], "VALID").shape.as_list() == [None, None, 12, 8]
        any_rank = placeholder("float32")
        assert conv_layers.conv2d(any_rank, w, 1, "SAME").shape.as_list() == [None, None, None, 8]
        assert conv_layers.conv1d(placeholder("float32", [2, 9, 3]), np.zeros((3, 3, 4)), 2, "SAME").name == (
            "conv1d/Squeeze:0"
        )


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda x: conv_layers.conv2d(x, np.zeros((3, 3, 2, 4)), 1, "SAME"), ValueError, "3 and 2"),
        (lambda x: conv_layers.conv2d(x, np.zeros((9, 3, 3, 4)), 1, "VALID"), ValueError, "subtracting 9 from 6"),
        (lambda x: conv_layers.conv2d(x, np.zeros((3, 3, 3, 4)), 1, "FULL"), ValueError, "'FULL' not in"),
        (lambda x: conv_layers.conv2d(x, np.zeros((3, 3, 3, 4)), [1, 1, 1], "SAME"), ValueError, "length 1, 2 or 4"),
        (lambda x: conv_layers.conv2d(x, np.zeros((3, 3, 3, 4)), [2, 1, 1, 1], "SAME"), ValueError, "batch and depth"),
        (lambda x: conv_layers.conv2d(x, np.zeros((3, 3, 3)), 1, "SAME"), ValueError, "rank 4 but is rank 3"),
        (lambda x: conv_layers.conv2d(x, convert_to_tensor(np.zeros((3, 3, 3, 4), "f")), 1, "SAME"), TypeError, "type"),
        (lambda x: conv_layers.conv2d(x, np.zeros((3, 3, 3, 4)), 1, "SAME", data_format="N"), ValueError, "data_form"),
        (lambda x: conv_layers.convolution(x, np.zeros((3, 3, 3, 4)), "SAME", strides=[2, 2], dilation_rate=[2, 2]),
         ValueError, "not supported"),
        (lambda x: conv_layers.conv2d_transpose(x, np.zeros((3, 3, 4, 5)), [2, 6, 5, 4], 1), ValueError, "3 != 5"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_while_building(make, error, text):
    with Graph().as_default():
        x = convert_to_tensor(np.zeros((2, 6, 5, 3)))
        with pytest.raises(error, match=text):
            make(x)


def test_what_does_not_fit_fails_the_step():
    with Graph().as_default():
        x = placeholder("float64")
        y = conv_layers.conv2d(x, np.zeros((3, 3, 2, 4)), 1, "VALID")
        with pytest.raises(errors.InvalidArgumentError, match="same depth: 3 vs 2"):
            evaluate(y, {x: np.zeros((1, 5, 5, 3))})
        with pytest.raises(errors.InvalidArgumentError, match="4-dimensional"):
            evaluate(y, {x: np.zeros((5, 5, 2))})
        back = conv_layers.conv2d_transpose(np.zeros((1, 4, 4, 3)), np.zeros((3, 3, 4, 3)), [1, 9, 9, 4], 2)
        with pytest.raises(errors.InvalidArgumentError, match="actual = 4, computed = 5"):
            evaluate(back)
