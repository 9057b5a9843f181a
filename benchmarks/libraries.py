"""What other libraries take for rows of `kernels.py`: PyTorch (oneDNN) and loops compiled by numba, on 1 and 2 threads.

    python benchmarks/libraries.py --only "max pool"

Nothing imports this, and dtfzmq needs none of it: it tells what a library would bring where numpy's functions do not
reach TensorFlow. Needs torch and numba; the rows of one that is missing are left out. As in `kernels.py`, four sets of
inputs are taken in turns, and the least time counts.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

COPIES = 4
BATCH, SIZE, IN, OUT = 32, 28, 16, 32


class Sets(list[Any]):
    """An argument that differs from one set of inputs to the next."""


class Row(NamedTuple):
    """What is timed: fn(*args), with one of each of the Sets among the arguments."""

    title: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]

    def __call__(self, i: int) -> None:
        self.fn(*(arg[i] if isinstance(arg, Sets) else arg for arg in self.args))


def row(title: str, fn: Callable[..., Any], *args: Any) -> Row:
    """A Row."""
    return Row(title, fn, args)


def floats(*shape: int) -> Sets:
    """COPIES arrays."""
    random = np.random.RandomState(0)
    return Sets(random.standard_normal(shape).astype(np.float32) for _ in range(COPIES))


def numba_pools(k: int) -> tuple[Callable[..., Any], ...]:
    """Maximum, alone and with its places, its way back and average of k x k (2 or 3) by 2, over SIZE pixels a row.

    Loops as long as a row, whose length the compiler knows, take whole vectors; loops over the channels of a pixel ask
    for each pixel anew whether two arrays overlap. So a window's rows are reduced first.
    """
    numba = importlib.import_module("numba")
    compiled = numba.njit(parallel=True, fastmath=True, error_model="numpy")
    half = SIZE // 2
    wide, long = SIZE * IN, half * IN
    whole = half if k == 2 else half - 1

    @compiled
    def most(x: Any, y: Any) -> None:
        for b in numba.prange(len(x)):
            rows = np.empty(wide, np.float32)
            for i in range(half):
                for e in range(wide):
                    rows[e] = max(x[b, 2 * i, e], x[b, 2 * i + 1, e])
                if k == 3 and 2 * i + 2 < SIZE:
                    for e in range(wide):
                        rows[e] = max(rows[e], x[b, 2 * i + 2, e])
                for col in range(whole):
                    for ch in range(IN):
                        top = rows[col * 2 * IN + ch]
                        for q in range(1, k):
                            top = max(top, rows[(col * 2 + q) * IN + ch])
                        y[b, i, col * IN + ch] = top
                for e in range(whole * IN, long):
                    y[b, i, e] = max(rows[e + whole * IN], rows[e + whole * IN + IN])

    @compiled
    def mean(x: Any, y: Any) -> None:
        for b in numba.prange(len(x)):
            rows = np.empty(wide, np.float32)
            for i in range(half):
                for e in range(wide):
                    rows[e] = x[b, 2 * i, e] + x[b, 2 * i + 1, e]
                if k == 3 and 2 * i + 2 < SIZE:
                    for e in range(wide):
                        rows[e] += x[b, 2 * i + 2, e]
                high = min(k, SIZE - 2 * i)
                share, last = np.float32(1 / (k * high)), np.float32(1 / (2 * high))
                for col in range(whole):
                    for ch in range(IN):
                        total = rows[col * 2 * IN + ch]
                        for q in range(1, k):
                            total += rows[(col * 2 + q) * IN + ch]
                        y[b, i, col * IN + ch] = total * share
                for e in range(whole * IN, long):
                    y[b, i, e] = (rows[e + whole * IN] + rows[e + whole * IN + IN]) * last

    @compiled
    def most_and_places(x: Any, y: Any, places: Any) -> None:
        for b in numba.prange(len(x)):
            rows, of = np.empty(wide, np.float32), np.empty(wide, np.int32)
            for i in range(half):
                for e in range(wide):
                    first, second = x[b, 2 * i, e], x[b, 2 * i + 1, e]
                    rows[e], of[e] = (second, wide) if second > first else (first, 0)
                if k == 3 and 2 * i + 2 < SIZE:
                    for e in range(wide):
                        third = x[b, 2 * i + 2, e]
                        rows[e], of[e] = (third, 2 * wide) if third > rows[e] else (rows[e], of[e])
                for col in range(whole):
                    for ch in range(IN):
                        at = col * 2 * IN + ch
                        top, line, place = rows[at], of[at], of[at]
                        for q in range(1, k):
                            value, row = rows[at + q * IN], of[at + q * IN]
                            better = (value > top) | ((value == top) & (row < line))
                            top = value if better else top
                            line = row if better else line
                            place = row + q * IN if better else place
                        y[b, i, col * IN + ch] = top
                        places[b, i, col * IN + ch] = place
                for e in range(whole * IN, long):
                    at = e + whole * IN
                    other, row = rows[at + IN], of[at + IN]
                    better = (other > rows[at]) | ((other == rows[at]) & (row < of[at]))
                    y[b, i, e], places[b, i, e] = (other, row + IN) if better else (rows[at], of[at])

    @compiled
    def most_back(g: Any, places: Any, dx: Any) -> None:
        for b in numba.prange(len(g)):
            flat = dx[b].reshape(-1)
            for e in range(SIZE * wide):
                flat[e] = 0
            for i in range(half):
                for col in range(half):
                    at = i * 2 * wide + col * 2 * IN
                    for ch in range(IN):
                        flat[at + ch + places[b, i, col * IN + ch]] += g[b, i, col * IN + ch]

    return most, most_and_places, most_back, mean


def numba_rows() -> Iterator[Row]:
    """Loops over [batch, height, width, channels]: channels innermost; known to the compiler where that helps."""
    numba = importlib.import_module("numba")
    compiled = numba.njit(parallel=True, fastmath=True, boundscheck=False)

    @compiled
    def mean_pool_back(g: Any, k: int, s: int, dx: Any) -> None:
        n, h, w, c = dx.shape
        for b in numba.prange(n):
            dx[b] = 0
            for i in range(g.shape[1]):
                for col in range(g.shape[2]):
                    share = np.float32(1) / ((min(i * s + k, h) - i * s) * (min(col * s + k, w) - col * s))
                    for p in range(i * s, min(i * s + k, h)):
                        for q in range(col * s, min(col * s + k, w)):
                            for ch in range(c):
                                dx[b, p, q, ch] += g[b, i, col, ch] * share

    @compiled
    def depthwise(x: Any, f: Any, s: int, before: int, y: Any) -> None:
        n, h, w, c = len(x), x.shape[1], x.shape[2], IN
        for j in numba.prange(n * y.shape[1]):
            b, i = j // y.shape[1], j % y.shape[1]
            total = np.empty(c, np.float32)
            for col in range(y.shape[2]):
                for ch in range(c):
                    total[ch] = 0
                for p in range(max(0, before - i * s), min(3, h + before - i * s)):
                    for q in range(max(0, before - col * s), min(3, w + before - col * s)):
                        for ch in range(c):
                            total[ch] += x[b, i * s + p - before, col * s + q - before, ch] * f[p, q, ch]
                for ch in range(c):
                    y[b, i, col, ch] = total[ch]

    @compiled
    def norm(x: Any, gain: Any, offset: Any, y: Any) -> None:
        parts, c = 8, IN
        size = (len(x) + parts - 1) // parts
        sums = np.zeros((parts, 2, c), np.float32)
        for part in numba.prange(parts):
            total, squares = np.zeros(c, np.float32), np.zeros(c, np.float32)
            for i in range(part * size, min((part + 1) * size, len(x))):
                for ch in range(c):
                    total[ch] += x[i, ch]
                    squares[ch] += x[i, ch] * x[i, ch]
            sums[part, 0], sums[part, 1] = total, squares
        whole = sums.sum(0) / np.float32(len(x))
        slope = gain / np.sqrt(whole[1] - whole[0] * whole[0] + np.float32(0.001))
        shift = offset - whole[0] * slope
        for part in numba.prange(parts):
            for i in range(part * size, min((part + 1) * size, len(x))):
                for ch in range(c):
                    y[i, ch] = x[i, ch] * slope[ch] + shift[ch]

    @compiled
    def norm_back(x: Any, g: Any, mean: Any, inverse: Any, gain: Any, dx: Any) -> None:
        parts, c = 8, IN
        size = (len(x) + parts - 1) // parts
        sums = np.zeros((parts, 2, c), np.float32)
        for part in numba.prange(parts):
            total, met = np.zeros(c, np.float32), np.zeros(c, np.float32)
            for i in range(part * size, min((part + 1) * size, len(x))):
                for ch in range(c):
                    total[ch] += g[i, ch]
                    met[ch] += g[i, ch] * (x[i, ch] - mean[ch])
            sums[part, 0], sums[part, 1] = total, met
        whole = sums.sum(0) / np.float32(len(x))
        slope = whole[1] * inverse * inverse
        shift, factor = whole[0] - mean * slope, gain * inverse
        for part in numba.prange(parts):
            for i in range(part * size, min((part + 1) * size, len(x))):
                for ch in range(c):
                    dx[i, ch] = (g[i, ch] - x[i, ch] * slope[ch] - shift[ch]) * factor[ch]

    @compiled
    def softmax(x: Any, y: Any) -> None:
        for i in numba.prange(len(x)):
            row, out = x[i], y[i]
            top = row[0]
            for j in range(len(row)):
                top = max(top, row[j])
            total = np.float32(0)
            for j in range(len(row)):
                out[j] = np.exp(row[j] - top)
                total += out[j]
            for j in range(len(row)):
                out[j] /= total

    x, full = floats(BATCH, SIZE, SIZE, IN), floats(BATCH, SIZE, SIZE, IN)
    half = floats(BATCH, SIZE // 2, SIZE // 2, IN)
    channel, filters = np.ones(IN, np.float32), floats(3, 3, IN)
    flat, flat_half, flat_full = (Sets(one.reshape(BATCH, one.shape[1], -1) for one in a) for a in (x, half, full))
    for title, k in (("2x2 by 2", 2), ("3x3 by 2", 3)):
        most, most_and_places, most_back, mean = numba_pools(k)
        tops = Sets(np.empty_like(one) for one in flat_half)
        yield row(f"max pool {title}", most, flat, tops)
        places = Sets(np.zeros(one.shape, np.int32) for one in flat_half)
        yield row(f"max pool {title}, with places", most_and_places, flat, tops, places)
        yield row(f"max pool {title}, back alone", most_back, flat_half, places, flat_full)
        yield row(f"average pool {title}", mean, flat, flat_half)
        yield row(f"average pool {title}, back alone", mean_pool_back, half, k, 2, full)
    yield row("depthwise conv 3x3", depthwise, x, filters, 1, 1, full)
    yield row("depthwise conv 3x3 by 2", depthwise, x, filters, 2, 0, half)
    rows, out, towards = (Sets(one.reshape(-1, IN) for one in sets) for sets in (x, full, floats(*x[0].shape)))
    yield row("batch norm, training", norm, rows, channel, channel, out)
    yield row("batch norm, training, back alone", norm_back, rows, towards, channel, channel, channel, out)
    yield row("softmax [256, 1000]", softmax, floats(256, 1000), floats(256, 1000))


def torch_rows() -> Iterator[Row]:
    """PyTorch's own functions, in its layout with channels last."""
    torch = importlib.import_module("torch")
    functional = torch.nn.functional
    torch.set_grad_enabled(False)
    aten = torch.ops.aten

    def tensors(*shape: int) -> Sets:
        return Sets(torch.from_numpy(one).contiguous(memory_format=torch.channels_last) for one in floats(*shape))

    x, towards = tensors(BATCH, IN, SIZE, SIZE), tensors(BATCH, IN, SIZE, SIZE)
    single, half = tensors(BATCH, 1, SIZE, SIZE), tensors(BATCH, IN, SIZE // 2, SIZE // 2)
    for title, image, window, stride, groups, columns in (
        ("conv 3x3, 16 to 32", x, 3, 1, 1, OUT), ("conv 3x3 by 2, 16 to 32", x, 3, 2, 1, OUT),
        ("conv 1x1, 16 to 32", x, 1, 1, 1, OUT), ("conv 5x5 of one channel to 32", single, 5, 1, 1, OUT),
        ("depthwise conv 3x3", x, 3, 1, IN, IN), ("depthwise conv 3x3 by 2", x, 3, 2, IN, IN),
    ):  # fmt: skip
        w = tensors(columns, image[0].shape[1] // groups, window, window)
        g = tensors(BATCH, columns, SIZE // stride, SIZE // stride)
        pad = window // 2
        moves = [stride, stride], [pad, pad], [1, 1], False, [0, 0], groups
        yield row(title, functional.conv2d, image, w, None, stride, pad, 1, groups)
        yield row(f"{title}, by input", aten.convolution_backward, g, image, w, None, *moves, [True, False, False])
        yield row(f"{title}, by filter", aten.convolution_backward, g, image, w, None, *moves, [False, True, False])
    for title, k, pad in (("2x2 by 2", 2, 0), ("3x3 by 2", 3, 1)):
        most = [k, k], [2, 2], [pad, pad], [1, 1], False
        mean = [k, k], [2, 2], [pad, pad], False, False, None
        places = Sets(aten.max_pool2d_with_indices(one, *most)[1] for one in x)
        yield row(f"max pool {title}", aten.max_pool2d_with_indices, x, *most)
        yield row(f"max pool {title}, back alone", aten.max_pool2d_with_indices_backward, half, x, *most, places)
        yield row(f"average pool {title}", aten.avg_pool2d, x, *mean)
        yield row(f"average pool {title}, back alone", aten.avg_pool2d_backward, half, x, *mean)
    v, all_three = torch.ones(IN), [True, True, True]
    yield row("batch norm, training", aten.native_batch_norm, x, v, v, None, None, True, 0.1, 0.001)
    yield row("batch norm, given statistics", functional.batch_norm, x, v, v, v, v, False)
    yield row(
        "batch norm, training, back alone", aten.native_batch_norm_backward, towards, x, v, None, None, v, v, True,
        0.001, all_three,
    )  # fmt: skip
    yield row("softmax [256, 1000]", torch.softmax, Sets(torch.from_numpy(one) for one in floats(256, 1000)), 1)


def threads(library: str, count: int) -> None:
    """Let a library use so many."""
    importlib.import_module(library).set_num_threads(count)


def least(call: Row, seconds: float) -> float:
    """Milliseconds."""
    for i in range(2 * COPIES):
        call(i % COPIES)
    best, i, end = float("inf"), 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call(i % COPIES)
        best = min(best, time.perf_counter() - start)
        i += 1
    return best * 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose titles hold these words")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each row takes")
    chosen = parser.parse_args()
    print(f"{'milliseconds a call':<48} {'':<6} {'1 thread':>9} {'2 threads':>9}")
    for library, rows in (("torch", torch_rows), ("numba", numba_rows)):
        if importlib.util.find_spec(library) is None:
            continue
        for call in rows():
            if chosen.only in call.title:
                found = []
                for count in (1, 2):
                    threads(library, count)
                    found.append(least(call, chosen.seconds))
                print(f"{call.title:<48} {library:<6} {found[0]:>9.3f} {found[1]:>9.3f}", flush=True)


if __name__ == "__main__":
    main()
