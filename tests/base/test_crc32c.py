"""CRC-32C against the values of RFC 3720 and against its definition, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfzmq.base.crc32c import crc32c, masked


def by_definition(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_values(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


@given(st.binary(max_size=700), st.integers(0, 700))
def test_any_bytes_in_one_or_in_two(data: bytes, cut: int) -> None:
    whole = by_definition(data)
    assert crc32c(data) == whole
    assert crc32c(data[cut:], crc32c(data[:cut])) == whole


def test_blocks_join() -> None:
    data = np.random.default_rng(1).integers(0, 256, (2 << 21) + 77, np.uint8)
    cut = len(data) // 3
    assert crc32c(data) == crc32c(data[cut:], crc32c(data[:cut]))
    assert crc32c(np.zeros(3 << 21, np.uint8)) != crc32c(np.zeros((3 << 21) + 1, np.uint8))


def test_masked() -> None:
    crc = crc32c(b"foo")
    assert masked(crc) != crc and masked(masked(crc)) != crc
    assert masked(0) == 0xA282EAD8
