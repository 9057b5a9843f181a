"""The three hashes by which TensorFlow puts strings into buckets, in Python: the numbers are the same.

Sources: FarmHash's Fingerprint64 (Google, MIT), MurmurHash64A (public domain), SipHash-2-4 (public domain).
"""

from __future__ import annotations

_ALL = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _word(s: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(s[at : at + size], "little")


def _rotate(x: int, by: int) -> int:
    x &= _ALL
    return x >> by | (x << 64 - by) & _ALL


def _mix(x: int) -> int:
    x &= _ALL
    return x ^ x >> 47


def _join(u: int, v: int, mul: int) -> int:
    a = _mix((u ^ v) * mul)
    b = _mix((v ^ a) * mul)
    return b * mul & _ALL


def fingerprint64(s: bytes) -> int:
    """FarmHash's Fingerprint64: of string_to_hash_bucket_fast and fingerprint."""
    n = len(s)
    if n <= 16:
        return _up_to_16(s, n)
    if n <= 32:
        return _up_to_32(s, n)
    if n <= 64:
        return _up_to_64(s, n)
    return _long(s, n)


def _up_to_16(s: bytes, n: int) -> int:
    if n >= 8:
        mul = _K2 + n * 2 & _ALL
        a, b = _word(s, 0) + _K2 & _ALL, _word(s, n - 8)
        return _join(_rotate(b, 37) * mul + a & _ALL, (_rotate(a, 25) + b) * mul & _ALL, mul)
    if n >= 4:
        return _join(n + (_word(s, 0, 4) << 3), _word(s, n - 4, 4), _K2 + n * 2 & _ALL)
    if n:
        y, z = s[0] + (s[n >> 1] << 8), n + (s[n - 1] << 2)
        return _mix(y * _K2 ^ z * _K0) * _K2 & _ALL
    return _K2


def _up_to_32(s: bytes, n: int) -> int:
    mul = _K2 + n * 2 & _ALL
    a, b = _word(s, 0) * _K1, _word(s, 8)
    c, d = _word(s, n - 8) * mul, _word(s, n - 16) * _K2
    return _join(_rotate(a + b, 43) + _rotate(c, 30) + d & _ALL, a + _rotate(b + _K2, 18) + c & _ALL, mul)


def _up_to_64(s: bytes, n: int) -> int:
    mul = _K2 + n * 2 & _ALL
    a, b = _word(s, 0) * _K2, _word(s, 8)
    c, d = _word(s, n - 8) * mul, _word(s, n - 16) * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d & _ALL
    z = _join(y, a + _rotate(b + _K2, 18) + c & _ALL, mul)
    e, f = _word(s, 16) * mul, _word(s, 24)
    g, h = (y + _word(s, n - 32)) * mul, (z + _word(s, n - 24)) * mul
    return _join(_rotate(e + f, 43) + _rotate(g, 30) + h & _ALL, e + _rotate(f + a, 18) + g & _ALL, mul)


def _weak(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_word(s, at + i) for i in (0, 8, 16, 24))
    a += w
    b = _rotate(b + a + z, 21)
    c = a
    a += x + y
    b += _rotate(a, 44)
    return a + z & _ALL, b + c & _ALL


def _long(s: bytes, n: int) -> int:
    x, y = 81, 81 * _K1 + 113 & _ALL
    z = _mix(y * _K2 + 113) * _K2 & _ALL
    v, w = (0, 0), (0, 0)
    x = x * _K2 + _word(s, 0) & _ALL
    end = (n - 1) // 64 * 64
    for at in range(0, end, 64):
        x, y, z, v, w = _round(s, at, x, y, z, v, w, _K1, 1)
    mul = _K1 + ((z & 0xFF) << 1) & _ALL
    w = (w[0] + (n - 1 & 63) & _ALL, w[1])
    v = (v[0] + w[0] & _ALL, v[1])
    w = (w[0] + v[0] & _ALL, w[1])
    x, y, z, v, w = _round(s, end + (n - 1 & 63) - 63, x, y, z, v, w, mul, 9)
    return _join(
        _join(v[0], w[0], mul) + _mix(y) * _K0 + z & _ALL, _join(v[1], w[1], mul) + x & _ALL, mul
    )


def _round(
    s: bytes, at: int, x: int, y: int, z: int, v: tuple[int, int], w: tuple[int, int], mul: int, weight: int
) -> tuple[int, int, int, tuple[int, int], tuple[int, int]]:
    x = _rotate(x + y + v[0] + _word(s, at + 8), 37) * mul & _ALL
    y = _rotate(y + v[1] + _word(s, at + 48), 42) * mul & _ALL
    x ^= w[1] * weight & _ALL
    y = y + v[0] * weight + _word(s, at + 40) & _ALL
    z = _rotate(z + w[0], 33) * mul & _ALL
    first = _weak(s, at, v[1] * mul & _ALL, x + w[0])
    second = _weak(s, at + 32, z + w[1], y + _word(s, at + 16))
    return z, y, x, first, second


def hash64(s: bytes) -> int:
    """MurmurHash64A with TensorFlow's seed: of string_to_hash_bucket."""
    m = 0xC6A4A7935BD1E995
    h = 0xDECAFCAFFE ^ len(s) * m & _ALL
    whole = len(s) & ~7
    for at in range(0, whole, 8):
        k = _mix(_word(s, at) * m) * m & _ALL
        h = (h ^ k) * m & _ALL
    if whole < len(s):
        h = (h ^ _word(s, whole)) * m & _ALL
    return _mix(_mix(h) * m)


def siphash(key: tuple[int, int], s: bytes) -> int:
    """SipHash-2-4 under a key of two 64-bit numbers: of string_to_hash_bucket_strong."""
    k0, k1 = (k & _ALL for k in key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    whole = len(s) & ~7
    words = [_word(s, at) for at in range(0, whole, 8)]
    words.append(_word(s, whole) | (len(s) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        _sip(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    _sip(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _sip(v: list[int], rounds: int) -> None:
    """Rounds in place; a rotation to the left by 13 is one to the right by 51."""
    a, b, c, d = v
    for _ in range(rounds):
        a = a + b & _ALL
        b = _rotate(b, 51) ^ a
        a = _rotate(a, 32)
        c = c + d & _ALL
        d = _rotate(d, 48) ^ c
        a = a + d & _ALL
        d = _rotate(d, 43) ^ a
        c = c + b & _ALL
        b = _rotate(b, 47) ^ c
        c = _rotate(c, 32)
    v[:] = a, b, c, d
