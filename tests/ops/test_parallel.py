"""Kernels over several threads: the same results, and errors that come out."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dtfzmq.ops import conv_kernels, parallel, windows


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
