"""Sums of products by index letters."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import dims
from dtfzmq.ops.complex import conj
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat
from dtfzmq.ops.shaping import invalid

Labels = list[Any]  # letters; an axis under "..." is ("...", i), counted from the right


def _expand(subscript: str, rank: int, rest: int | None = None) -> Labels:
    """The label of each axis. Raises ValueError if the letters do not go with the rank."""
    if "..." not in subscript:
        if len(subscript) != rank and rest is None:
            raise ValueError(f"Unexpected number of dimensions: '{subscript}' names {len(subscript)} axes of {rank}.")
        return list(subscript)
    head, tail = subscript.split("...")
    count = rank - len(head) - len(tail) if rest is None else rest
    if count < 0:
        raise ValueError(f"Unexpected number of dimensions: '{subscript}' names more axes than {rank}.")
    return [*head, *(("...", i) for i in range(count - 1, -1, -1)), *tail]


def parse(equation: str, count: int) -> tuple[list[str], str]:
    """The subscripts of the inputs and of the output. Raises ValueError for a text that is no equation."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != count:
        raise ValueError(f"Expected {len(inputs)} arguments for equation '{equation}', but got {count}.")
    for part in [*inputs, right]:
        letters = part.replace("...", "", 1)
        if not (letters.isalpha() or not letters) or not letters.isascii():
            raise ValueError(f"Indices have incorrect format: '{equation}'.")
    if not arrow:
        letters = left.replace(",", "").replace("...", "")
        right = ("..." if "..." in left else "") + "".join(c for c in sorted(set(letters)) if letters.count(c) == 1)
    elif unknown := set(right.replace("...", "")) - set(left):
        raise ValueError(f"Output label {sorted(unknown)} appears in no input of '{equation}'.")
    elif len(set(right.replace("...", ""))) != len(right.replace("...", "")):
        raise ValueError(f"An output label appears twice in '{equation}'.")
    return inputs, right


def _labels(equation: str, ranks: list[int]) -> tuple[list[Labels], Labels]:
    inputs, right = parse(equation, len(ranks))
    found = [_expand(part, rank) for part, rank in zip(inputs, ranks)]
    rest = max((sum(isinstance(c, tuple) for c in labels) for labels in found), default=0)
    return found, _expand(right, 0, rest)


def _shape(n: Any) -> list[TensorShape]:
    known = [dims(t) for t in n.inputs]
    if any(k is None for k in known):
        right = parse(n.attrs["equation"], len(known))[1]
        return [UNKNOWN if "..." in right else TensorShape([None] * len(right))]
    labels, out = _labels(n.attrs["equation"], [len(k or ()) for k in known])
    sizes: dict[Any, Any] = {}
    for letters, shape in zip(labels, known):
        for letter, size in zip(letters, shape or ()):
            before = sizes.get(letter)
            if before in (None, 1) or letter not in sizes:
                sizes[letter] = size if size is not None or letter not in sizes or before is None else before
            elif size not in (None, 1, before):
                raise ValueError(f"Dimensions must be equal, but are {before} and {size} for '{n.attrs['equation']}'")
    return [TensorShape([sizes[c] for c in out])]


def _diagonal(x: np.ndarray, labels: Labels) -> tuple[np.ndarray, Labels]:
    """x with each label once: a repeated one takes the diagonal, as a view."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            if x.shape[i] != x.shape[j]:
                raise invalid(f"The axes of a repeated index are {x.shape[i]} and {x.shape[j]} long")
            x = np.diagonal(x, axis1=i, axis2=j)
            labels = [*(c for k, c in enumerate(labels) if k not in (i, j)), label]
    return x, labels


def _total(x: np.ndarray, labels: Labels, keep: set[Any]) -> tuple[np.ndarray, Labels]:
    """x summed over labels that are not kept."""
    gone = tuple(i for i, c in enumerate(labels) if c not in keep)
    if not gone:
        return x, labels
    return np.add.reduce(x, gone, dtype=x.dtype), [c for c in labels if c in keep]


def _product(x: np.ndarray, xl: Labels, y: np.ndarray, yl: Labels, keep: set[Any]) -> tuple[np.ndarray, Labels]:
    """The sum of products over labels that both have and are not kept: one matrix product."""
    x, xl = _total(x, xl, keep | set(yl))
    y, yl = _total(y, yl, keep | set(xl))
    sizes = dict(zip(xl, x.shape))
    for c, size in zip(yl, y.shape):
        if c in sizes and size != sizes[c] and 1 not in (size, sizes[c]):
            raise invalid(f"Dimensions must be equal, but are {sizes[c]} and {size} for index '{c}'")
    other = dict(zip(yl, y.shape))
    uneven = [c for c in xl if c in other and other[c] != sizes[c]]
    for c in uneven:  # size 1 against more: repeat, so that what follows may multiply plainly
        if sizes[c] == 1:
            x = np.repeat(x, other[c], xl.index(c))
        else:
            y = np.repeat(y, sizes[c], yl.index(c))
    batch = [c for c in xl if c in yl and c in keep]
    inner = [c for c in xl if c in yl and c not in keep]
    mine, yours = [c for c in xl if c not in yl], [c for c in yl if c not in xl]
    left = np.transpose(x, [xl.index(c) for c in (*batch, *mine, *inner)])
    right = np.transpose(y, [yl.index(c) for c in (*batch, *inner, *yours)])
    lead = left.shape[: len(batch)]
    rows, columns = left.shape[len(batch) : len(batch) + len(mine)], right.shape[len(batch) + len(inner) :]
    depth = int(np.prod(left.shape[len(batch) + len(mine) :], dtype=np.int64))
    a = left.reshape((*lead, int(np.prod(rows, dtype=np.int64)), depth))
    b = right.reshape((*lead, depth, int(np.prod(columns, dtype=np.int64))))
    return np.matmul(a, b).reshape((*lead, *rows, *columns)), [*batch, *mine, *yours]


def _contract(operands: list[tuple[np.ndarray, Labels]], out: Labels) -> tuple[np.ndarray, Labels]:
    """The sum of the products of all operands; the labels left are those of `out` that occur, in any order."""
    work = [_diagonal(x, labels) for x, labels in operands]
    x, labels = work[0]
    for i, (y, more) in enumerate(work[1:], 1):
        later = {c for _, rest in work[i + 1 :] for c in rest}
        x, labels = _product(x, labels, y, more, later | set(out))
    return _total(x, labels, set(out))


def _kernel(node: Any, env: Any) -> Any:
    equation = node.attrs["equation"]
    to = node.dtypes[0].np_dtype

    def einsum(*inputs: np.ndarray) -> np.ndarray:
        labels, out = _named(equation, inputs)
        x, found = _contract([(_wide(t), c) for t, c in zip(inputs, labels)], out)
        return np.array(np.transpose(x, [found.index(c) for c in out]), to)

    return einsum


def _named(equation: str, inputs: Any) -> tuple[list[Labels], Labels]:
    try:
        return _labels(equation, [x.ndim for x in inputs])
    except ValueError as error:
        raise invalid(str(error)) from None


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


def _grad_kernel(node: Any, env: Any) -> Any:
    equation, wrt = node.attrs["equation"], node.attrs["wrt"]
    to = node.dtypes[0].np_dtype

    def back(g: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
        labels, out = _named(equation, inputs)
        result = np.zeros(inputs[wrt].shape, _wide(g).dtype)
        place, mine = _diagonal(result, labels[wrt])
        others = [(_wide(x), c) for i, (x, c) in enumerate(zip(inputs, labels)) if i != wrt]
        y, found = _contract([(_wide(g), out), *others], mine)
        for i, c in enumerate(found):
            if place.shape[mine.index(c)] == 1 and y.shape[i] != 1:
                y = np.add.reduce(y, i, dtype=y.dtype, keepdims=True)
        found = [*found, *(c for c in mine if c not in found)]
        y = y.reshape((*y.shape, *(1,) * (len(found) - y.ndim)))
        place.setflags(write=True)
        place[...] = np.transpose(y, [found.index(c) for c in mine])
        return result.astype(to, copy=False)

    return back


def _einsum_grad(n: Any, g: Tensor) -> tuple[Tensor, ...]:
    equation = n.attrs["equation"]
    steady = [conj(t) for t in n.inputs]
    return tuple(raw.EinsumGrad(g, steady, equation=equation, wrt=i) for i in range(len(n.inputs)))


def _einsum_grad_grad(n: Any, h: Tensor) -> tuple[Tensor | None, ...]:
    """EinsumGrad is linear in g and in each input but `wrt`, of which only the shape matters."""
    equation, wrt = n.attrs["equation"], n.attrs["wrt"]
    g, inputs = n.inputs[0], list(n.inputs[1:])
    steady = [conj(t) for t in inputs]
    to_g = raw.Einsum([h if i == wrt else t for i, t in enumerate(steady)], equation=equation)
    put = [h if i == wrt else t for i, t in enumerate(steady)]
    rest = [
        None if i == wrt else raw.EinsumGrad(conj(g), put, equation=equation, wrt=i)
        for i in range(len(inputs))
    ]
    return (to_g, *rest)


_EQUATIONS: list[tuple[str, list[np.ndarray]]] = [
    ("ij,jk->ik", [mat(2, 3), mat(3, 4, seed=1)]),
    ("...ij,...jk->...ik", [mat(2, 2, 3), mat(1, 3, 2, seed=1)]),
    ("iij->ji", [mat(2, 2, 3)]),
    ("i,j,ik->k", [mat(2), mat(3, seed=1), mat(2, 2, seed=2)]),
    ("ab,ba", [mat(2, 3), mat(3, 2, seed=3)]),
]
_einsum = op(
    "Einsum", "inputs: N*; equation: str -> output: N", shape=_shape, make=_kernel, grad=_einsum_grad,
    samples=[Sample(inputs, equation=equation) for equation, inputs in _EQUATIONS],
)  # fmt: skip
_einsum_grad_op = op(
    "EinsumGrad", "grad: N, inputs: N*; equation: str, wrt: int -> output: N",
    shape=lambda n: [n.inputs[1 + n.attrs["wrt"]].shape], make=_grad_kernel, grad=_einsum_grad_grad,
    samples=[
        Sample(mat(2, 4), [mat(2, 3), mat(3, 4, seed=1)], equation="ij,jk->ik", wrt=0),
        Sample(mat(3, 2), [mat(2, 2, 3)], equation="iij->ji", wrt=0),
        Sample(mat(2, seed=5), [mat(2), mat(3), mat(2, 2)], equation="i,j,ik->k", wrt=1),
    ],
)  # fmt: skip


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """The sum of products that `equation` names: "ij,jk->ik" is a matrix product.

    Letters left out of the output are summed over; without "->" those that occur once stay, in alphabetical order. A
    letter twice in one input takes the diagonal; "..." stands for any further axes, which broadcast. Raises ValueError
    for an equation that does not go with the inputs, TypeError for unknown keywords.
    """
    name = kwargs.pop("name", None)
    kwargs.pop("optimize", None)
    if kwargs:
        raise TypeError(f"invalid keyword arguments for this function: {', '.join(sorted(kwargs))}")
    if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)):
        inputs = tuple(inputs[0])
    if not inputs:
        raise ValueError(f'Got 0 inputs for equation "{equation}".')
    return _einsum([convert_to_tensor(x) for x in inputs], equation=equation, name=name or "einsum")
