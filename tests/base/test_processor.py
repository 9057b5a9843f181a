"""Denormals are zeros inside, and numbers again outside; and memory that is kept."""

from __future__ import annotations

import platform
import threading

import numpy as np

from dtfzmq.base import denormals, heap

TINY = np.array([1e-40], np.float32)


def product() -> bool:
    """True if the product of a denormal number is one."""
    return bool(np.multiply(TINY, np.float32(1)).view(np.uint32)[0])


def test_flushing_nests_and_ends() -> None:
    assert product()
    outer = denormals.flush()
    inner = denormals.flush()
    assert inner is None
    denormals.restore(inner)
    assert product() is not denormals.supported()
    denormals.restore(outer)
    assert product()


def test_flushing_is_the_threads_own() -> None:
    other = threading.Thread(target=denormals.flush)
    other.start()
    other.join(10)
    assert product()


def test_numpys_types_are_described_with_denormals() -> None:
    state = denormals.flush()
    try:
        known = np.finfo(np.float32)
    finally:
        denormals.restore(state)
    assert known.smallest_subnormal > 0


def test_memory_is_kept_where_the_library_can_be_told() -> None:
    assert heap.keep_freed() is heap.keep_freed()
    assert heap.keep_freed() is (platform.libc_ver()[0] == "glibc")
