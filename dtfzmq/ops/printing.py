"""Tensors as text, in TensorFlow's two ways: for Print and Assert, and for print and strings.format."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import none, same, scalar
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import bits, ints, mat


def number_text(value: Any) -> str:
    """A number as C++ writes it: few digits if they suffice to read it back, else all."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    array = np.asarray(value)
    kind = array.dtype.kind
    if kind == "b":
        return "1" if value else "0"
    if kind in "iu":
        return str(int(value))
    if kind == "c":
        return f"({number_text(array.real)},{number_text(array.imag)})"
    short, long = (15, 17) if array.dtype == np.float64 else (6, 9)
    exact = float(value)
    text = f"{exact:.{short}g}"
    wide = np.float64 if short == 15 else np.float32
    return text if wide(text) == wide(exact) or exact != exact else f"{exact:.{long}g}"


def summary(x: np.ndarray, limit: int) -> str:
    """Up to `limit` elements (all if negative), each row in brackets: what Print and Assert write."""
    if limit < 0:
        limit = x.size
    flat = x.reshape(-1)
    parts: list[str] = []
    taken = 0

    def walk(depth: int) -> None:
        nonlocal taken
        if taken >= limit:
            return
        if depth == x.ndim - 1:
            for i in range(x.shape[depth]):
                if taken >= limit:
                    if depth:
                        parts.append("...")
                    return
                parts.append((" " if i else "") + number_text(flat[taken]))
                taken += 1
            return
        for _ in range(x.shape[depth]):
            if taken < limit:
                parts.append("[")
                walk(depth + 1)
                parts.append("]")

    if x.ndim == 0:
        return number_text(flat[0]) if limit else "..."
    walk(0)
    return "".join(parts) + ("..." if x.size > limit else "")


def layout(x: np.ndarray, ends: int) -> str:
    """The first and last `ends` elements along each axis (all if negative), rows on lines: what print writes."""
    return _layout(x, ends, 1)


def _layout(x: np.ndarray, ends: int, depth: int) -> str:
    if x.ndim == 0:
        item = x[()]
        return f'"{number_text(item)}"' if isinstance(item, bytes) else number_text(item)
    cut = 0 <= 2 * ends < len(x)
    shown = [*range(ends), None, *range(len(x) - ends, len(x))] if cut else range(len(x))
    between = " " if x.ndim == 1 else "\n" * (x.ndim - 1) + " " * depth
    return "[" + between.join("..." if i is None else _layout(np.asarray(x[i]), ends, depth + 1) for i in shown) + "]"


def _print_kernel(node: Any, env: Any) -> Callable[..., Any]:
    message, first, limit = (node.attrs[k] for k in ("message", "first_n", "summarize"))
    count = 0
    guard = threading.Lock()

    def show(value: np.ndarray, *data: np.ndarray) -> np.ndarray:
        nonlocal count
        with guard:
            count += 1
            quiet = 0 <= first < count
        if not quiet:
            text = "".join(f"[{summary(np.asarray(x), limit)}]" for x in data)
            sys.stderr.write(f"{message}{text}\n")
        return value

    return show


_print = op(
    "Print", "input: T, data: any*; message: str = '', first_n: int = -1, summarize: int = 3 -> output: T", shape=same,
    make=_print_kernel, stateful=True, grad=lambda n, g: (g, *[None] * (len(n.inputs) - 1)),
    samples=[Sample(mat(2, 3), [mat(2), ints(3)], first_n=0)],
)  # fmt: skip


def _fill_in(template: str, placeholder: str, ends: int, data: tuple[np.ndarray, ...]) -> str:
    pieces = template.split(placeholder)
    if len(pieces) != len(data) + 1:
        raise errors.InvalidArgumentError(
            None, None,
            f"num placeholders in template and num inputs must match: {len(pieces) - 1} vs. {len(data)}",
        )  # fmt: skip
    out = [pieces[0]]
    for x, piece in zip(data, pieces[1:]):
        out += [layout(np.asarray(x), ends), piece]
    return "".join(out)


def _format_kernel(node: Any, env: Any) -> Callable[..., Any]:
    template, placeholder, ends = (node.attrs[k] for k in ("template", "placeholder", "summarize"))

    def format_(*data: np.ndarray) -> np.ndarray:
        return np.array(_fill_in(template, placeholder, ends, data).encode(), object)

    return format_


_string_format = op(
    "StringFormat", "inputs: any*; template: str = '%s', placeholder: str = '%s', summarize: int = 3 -> output: string",
    shape=scalar, make=_format_kernel, grad=NO_GRAD("text"),
    samples=[Sample([mat(2), bits(2, 2)], template="x={} y={}", placeholder="{}")],
)  # fmt: skip


def _streams(name: str) -> Callable[[str], Any]:
    if name == "stdout":
        return lambda text: sys.stdout.write(text)
    if name.startswith("file://"):
        def append(text: str) -> None:
            with open(name[7:], "a", encoding="utf-8") as file:
                file.write(text)

        return append
    return lambda text: sys.stderr.write(text)


def _print_v2_kernel(node: Any, env: Any) -> Callable[..., Any]:
    write, end = _streams(node.attrs["output_stream"]), node.attrs["end"]

    def show(text: np.ndarray) -> None:
        write(bytes(text[()]).decode("utf-8", "backslashreplace") + end)

    return show


_print_v2 = op(
    "PrintV2", "input: string; output_stream: str = 'stderr', end: str = '\\n' ->", shape=none,
    make=_print_v2_kernel, stateful=True, grad=NO_GRAD("gives no value"),
    samples=[Sample(np.array(b"", object), end="")],
)  # fmt: skip


def Print(
    input_: Any, data: Any, message: str | None = None, first_n: int | None = None, summarize: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """`input_` itself; on the task that computes it, `message` and the tensors of `data` are written to stderr.

    Up to `summarize` (3) elements of each tensor, the first `first_n` times (always, if None).
    """
    return _print(
        input_, list(data), message=message or "", first_n=-1 if first_n is None else first_n,
        summarize=3 if summarize is None else summarize, name=name,
    )  # fmt: skip


def _stream_name(stream: Any) -> str:
    if stream is sys.stdout:
        return "stdout"
    if stream is None or stream is sys.stderr:
        return "stderr"
    if isinstance(stream, str) and stream.startswith("file://"):
        return stream
    raise ValueError(f"Unsupported output stream {stream}; use sys.stdout, sys.stderr or 'file://PATH'.")


_MARK = "\x00"


def _template(value: Any, tensors: list[Tensor], top: bool) -> str:
    """The text of a Python structure, with a mark for each tensor in it."""
    if isinstance(value, dict):
        items = (f"{_template(k, tensors, False)}: {_template(v, tensors, False)}" for k, v in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_template(v, tensors, False) for v in value)
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Tensor) or hasattr(value, "_as_graph_element"):
        tensors.append(convert_to_tensor(value))
        return _MARK
    return str(value) if top else repr(value)


def print_(*inputs: Any, **options: Any) -> Operation:
    """Write the inputs to stderr (or `output_stream`), with `sep` between and `end` after them, when the op is run.

    Tensors may stand inside lists and dicts; of each axis the first and last `summarize` (3) elements are shown.
    """
    stream = _stream_name(options.pop("output_stream", None))
    name, sep, end = options.pop("name", None), options.pop("sep", " "), options.pop("end", "\n")
    summarize = options.pop("summarize", 3)
    if options:
        raise ValueError(f"Unrecognized keyword arguments for tf.print: {', '.join(options)}")
    tensors: list[Tensor] = []
    template = sep.join(_template(x, tensors, True) for x in inputs)
    text = raw.StringFormat(tensors, template=template, placeholder=_MARK, summarize=summarize or -1)
    return _print_v2(text, output_stream=stream, end=end, name=name)


def string_format(
    template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None
) -> Tensor:
    """`template` with each placeholder replaced by a tensor as text. Raises ValueError if their numbers differ."""
    tensors = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if template.count(placeholder) != len(tensors):
        raise ValueError(
            f"The template expects {template.count(placeholder)} tensors, but the inputs only has {len(tensors)}."
        )
    return _string_format(
        [convert_to_tensor(x) for x in tensors], template=template, placeholder=placeholder, summarize=summarize,
        name=name,
    )  # fmt: skip
