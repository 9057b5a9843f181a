"""Kernels over several threads: the same results, and errors that come out."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dtfzmq.ops import conv_kernels, depthwise_kernels, parallel, pool_grid, pool_kernels, windows


@pytest.fixture
def helpers(monkeypatch):
    """Three threads a kernel, which end with the test."""
    own = parallel._Helpers()
    own.count = 3
    monkeypatch.setattr(parallel, "_helpers", own)
    yield own
    if own.pool is not None:
        own.pool.close()


def test_parts_make_up_the_whole_in_order(helpers):
    met = threading.Barrier(3, timeout=10)  # all three run at once, or this breaks

    def part(entries):
        met.wait()
        return list(range(10))[entries]

    assert sum(parallel.split(10, 1e9, part), []) == list(range(10))
    assert parallel.split(10, 1e5, lambda entries: entries) == [slice(0, 10)]
    assert len(parallel.split(2, 1e9, lambda entries: entries)) == 2


def test_an_error_of_a_part_comes_out_after_all_are_done(helpers):
    done = []

    def part(entries):
        if entries.start == 0:
            raise MemoryError("no room")
        done.append(entries)

    with pytest.raises(MemoryError, match="no room"):
        parallel.split(9, 1e9, part)
    assert len(done) == 2


def test_convolutions_are_the_same_in_parts(helpers, monkeypatch):
    monkeypatch.setattr(conv_kernels, "_work", lambda *sizes: 1e9)
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((7, 6, 5, 2)), rng.standard_normal((3, 2, 2, 4))
    for stride in (1, 2):
        axes = [windows.axis(size, window, stride, 1, "SAME") for size, window in ((6, 3), (5, 2))]

        def all_three(axes=axes):
            y = conv_kernels.forward(x, w, axes)
            return y, conv_kernels.input_gradient(y, w, axes), conv_kernels.filter_gradient(x, y, axes)

        helpers.count = 3
        several = all_three()
        assert helpers.pool is not None
        helpers.count = 1
        for a, b in zip(several, all_three()):
            np.testing.assert_allclose(a, b, atol=1e-12)


def test_depthwise_convolutions_and_pooling_are_the_same_in_parts(helpers, monkeypatch):
    for module in (depthwise_kernels, pool_kernels):
        monkeypatch.setattr(module, "split", lambda size, work, fn: parallel.split(size, 1e9, fn))
    for module in (depthwise_kernels, pool_grid):
        monkeypatch.setattr(module, "_BLOCK", 1000)  # an entry or two
    rng = np.random.default_rng(2)
    x, w = rng.standard_normal((7, 6, 5, 2)), rng.standard_normal((3, 2, 2, 2))
    for stride, window in ((1, 3), (2, 3), (2, 2), (3, 2)):
        axes = [windows.axis(size, window, stride, 1, "SAME") for size in (6, 5)]
        filters = w[:window, :window] if window == 2 else np.repeat(w, 2, 1)[:, :3]
        all_axes = [windows.axis(7, 1, 1, 1, "SAME"), *axes, windows.axis(2, 1, 1, 1, "SAME")]

        def every(axes=axes, all_axes=all_axes, filters=filters):
            y = depthwise_kernels.forward(x, filters, axes)
            top = pool_kernels.maximum(x, all_axes)
            yield from (y, depthwise_kernels.input_gradient(y, filters, axes))
            yield from (depthwise_kernels.filter_gradient(x, y, axes), pool_kernels.average_gradient(top, all_axes))
            yield pool_kernels.maximum_gradient(x, top, top, all_axes)

        helpers.count = 3
        several = list(every())
        helpers.count = 1
        for a, b in zip(several, every()):
            np.testing.assert_allclose(a, b, atol=1e-12)
