"""CRC-32C (Castagnoli, RFC 3720 appendix B.4), the checksum in TensorFlow's files, over whole arrays at a time.

A CRC without its inversions is linear: that of A and B joined is that of A moved on by the length of B, xor that of B.
So a block is cut into lanes that are taken through the table together, and lanes are joined in pairs, and pairs again.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

Array = Any

_POLYNOMIAL = 0x82F63B78
_FEW = 1024  # bytes, up to which arrays take longer than a loop
_LANE = 64  # bytes of a lane: that many steps of eight bytes
_BLOCK = 1 << 21


def _byte_table() -> Array:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> np.uint32(1) ^ np.uint32(_POLYNOMIAL), table >> np.uint32(1))
    return table


@functools.cache
def _bytes() -> list[int]:
    """The table, for a loop."""
    return [int(state) for state in _byte_table()]


def _applied(moved: Array, crc: Array) -> Array:
    """A move, as a table for each byte of a state, applied to states."""
    return (
        moved[0][crc & 0xFF] ^ moved[1][crc >> 8 & 0xFF] ^ moved[2][crc >> 16 & 0xFF] ^ moved[3][crc >> 24]
    )  # fmt: skip


def _one_byte() -> Array:
    """What one byte of zeros does to a state."""
    state = np.arange(256, dtype=np.uint32)[None] << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    return _byte_table()[state & 0xFF] ^ state >> np.uint32(8)


@functools.cache
def _moves() -> list[Array]:
    """[i]: what 2**i bytes of zeros do to a state."""
    moves = [_one_byte()]
    for _ in range(62):
        moves.append(_applied(moves[-1], moves[-1]))
    return moves


@functools.cache
def _pairs() -> list[Array]:
    """For each pair of bytes in a word of eight, what its value adds to the state after the word."""
    table, moved = _byte_table(), _moves()[0]
    value = np.arange(65536, dtype=np.uint32)
    state = table[value & 0xFF]
    state = table[(state ^ value >> 8) & 0xFF] ^ state >> 8
    found = [state]
    for _ in range(3):
        state = _applied(moved, _applied(moved, state))
        found.insert(0, state)
    return found


def _of_block(data: Array) -> Array:
    """The CRC of up to a block of bytes, from state 0 and without inversions: leading zeros make no difference."""
    lanes = 1 << max(0, (-(-len(data) // _LANE) - 1).bit_length())
    padded = np.zeros(lanes * _LANE, np.uint8)
    padded[len(padded) - len(data) :] = data
    pairs = np.ascontiguousarray(padded.view("<u2").reshape(lanes, _LANE // 2).T)
    first, second, third, fourth = _pairs()
    crc = np.zeros(lanes, np.uint32)
    for at in range(0, _LANE // 2, 4):
        crc = (
            first[pairs[at] ^ (crc & 0xFFFF).astype(np.uint16)]
            ^ second[pairs[at + 1] ^ (crc >> 16).astype(np.uint16)]
            ^ third[pairs[at + 2]]
            ^ fourth[pairs[at + 3]]
        )
    moves, length = _moves(), _LANE.bit_length() - 1
    while len(crc) > 1:
        crc = _applied(moves[length], crc[0::2]) ^ crc[1::2]
        length += 1
    return crc


def crc32c(data: Any, before: int = 0) -> int:
    """The CRC-32C of bytes, or of any buffer without gaps; `before` is that of what stands before them."""
    whole = np.frombuffer(data, np.uint8)
    if len(whole) <= _FEW:
        table, crc = _bytes(), ~before & 0xFFFFFFFF
        for byte in whole.tobytes():
            crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
        return ~crc & 0xFFFFFFFF
    state = np.array([~before & 0xFFFFFFFF], np.uint32)
    for start in range(0, len(whole), _BLOCK):
        part = whole[start : start + _BLOCK]
        for bit in range(len(part).bit_length()):
            if len(part) >> bit & 1:
                state = _applied(_moves()[bit], state)
        state = state ^ _of_block(part)
    return int(~state[0])


def masked(crc: int) -> int:
    """A CRC as it stands beside what it is of: the CRC of bytes that hold CRCs would be weak."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
