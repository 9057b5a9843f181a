"""Node lists built by hand, and random programs: arithmetic, control edges, Ifs and Whiles on random devices."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import as_shape
from dtfzmq.graph.node import Node, Subgraph
from dtfzmq.ops import families  # noqa: F401  (declares the ops)

Edge = tuple[int, int]
F = dtypes.float64


class Builder:
    """A node list that grows. Methods return the output of the new node."""

    def __init__(self, prefix: str = "") -> None:
        self.nodes: list[Node] = []
        self.prefix = prefix
        self.returned = 0

    def add(
        self,
        op: str,
        inputs: Sequence[Edge] = (),
        types: Sequence[DType] = (F,),
        device: str = "",
        control: Sequence[int] = (),
        name: str = "",
        **attrs: Any,
    ) -> Edge:
        index = len(self.nodes)
        name = self.prefix + (name or f"{op.lower()}_{index}")
        self.nodes.append(Node(name, op, tuple(inputs), tuple(control), device, attrs, tuple(types)))
        return index, 0

    def const(self, value: Any, device: str = "", dtype: DType = F, name: str = "") -> Edge:
        array = np.asarray(value, dtype.np_dtype)
        return self.add("Const", (), (dtype,), device, name=name, value=array, dtype=dtype)

    def placeholder(self, device: str = "", dtype: DType = F, name: str = "") -> Edge:
        return self.add("Placeholder", (), (dtype,), device, name=name, dtype=dtype, shape=None)

    def binary(self, op: str, x: Edge, y: Edge, device: str = "", dtype: DType = F, **more: Any) -> Edge:
        return self.add(op, (x, y), (dtype,), device, **more)

    def variable(self, name: str, device: str = "", dtype: DType = F, shape: Any = ()) -> Edge:
        more: dict[str, Any] = {"shape": as_shape(shape), "dtype": dtype, "container": "", "shared_name": ""}
        return self.add("VariableV2", (), (dtype.ref,), device, name=name, **more)

    def assign(self, op: str, ref: Edge, value: Edge, device: str = "", dtype: DType = F, **more: Any) -> Edge:
        return self.add(op, (ref, value), (dtype.ref,), device, validate_shape=True, use_locking=True, **more)

    def arg(self, dtype: DType = F) -> Edge:
        count = sum(n.op == "_Arg" for n in self.nodes)
        return self.add("_Arg", (), (dtype,), name=f"_arg_{count}", index=count)

    def ret(self, value: Edge) -> None:
        name = f"{self.prefix}_ret_{self.returned}"
        self.nodes.append(Node(name, "_Retval", (value,), (), "", {"index": self.returned}))
        self.returned += 1

    def subgraph(self) -> Subgraph:
        types = tuple(n.dtypes[0] for n in self.nodes if n.op == "_Arg")
        return Subgraph(self.nodes, types, self.returned)

    def branch(
        self, pred: Edge, captures: Sequence[Edge], branches: Sequence[Builder], types: Sequence[DType], **more: Any
    ) -> int:
        """An If; its index."""
        then, otherwise = (branch.subgraph() for branch in branches)
        return self.add("If", [pred, *captures], types, then_branch=then, else_branch=otherwise, **more)[0]

    def loop(
        self, variables: Sequence[Edge], captures: Sequence[Edge], cond: Builder, body: Builder, types: Sequence[DType],
        **more: Any,
    ) -> int:
        """A While; its index. What the body returns beyond the variables is saved."""
        saved = tuple(range(len(variables), body.returned))
        outputs = [*types, *(dtypes.variant for _ in saved), dtypes.int32]
        return self.add(
            "While", [*variables, *captures], outputs, cond=cond.subgraph(), body=body.subgraph(),
            n_vars=len(variables), saved=saved, **more,
        )[0]


class Program:
    """A random program over scalars; `values` are float outputs that may be fetched.

    `failing` is the chance of a node that fails when it runs (op TestFail).
    """

    def __init__(self, rng: random.Random, devices: Sequence[str], size: int, failing: float = 0.0) -> None:
        self.rng = rng
        self.failing = failing
        self.devices = devices
        self.builder = Builder()
        self.values: list[Edge] = []
        b = self.builder
        for k in range(3):
            self.values.append(b.const(rng.uniform(-2, 2), self.device(), name=f"in_{k}"))
        self.variables = [b.variable(f"v{k}", self.device()) for k in range(2)]
        self.starts = [b.assign("Assign", v, self.values[k])[0] for k, v in enumerate(self.variables)]
        self._grow(b, self.values, size, 2, self.variables)

    def device(self) -> str:
        return self.rng.choice(self.devices)

    def _grow(self, b: Builder, values: list[Edge], size: int, depth: int, refs: Sequence[Edge]) -> None:
        rng = self.rng
        for _ in range(size):
            kind = rng.random()
            if depth and kind < 0.12:
                self._if(b, values, depth, refs)
            elif depth and kind < 0.24:
                self._while(b, values, depth, refs)
            elif rng.random() < self.failing:
                values.append(b.add("TestFail", [rng.choice(values)], device=self.device()))
            elif kind < 0.3:
                values.append(b.const(rng.uniform(-2, 2), self.device()))
            elif kind < 0.36 and refs:
                values.append(b.add("Identity", [rng.choice(refs)], device=self.device()))
            else:
                self._compute(b, values)

    def _compute(self, b: Builder, values: list[Edge]) -> None:
        rng = self.rng
        op = rng.choice(["Add", "Sub", "Maximum"])
        control = [rng.choice(values)[0]] if rng.random() < 0.2 else []
        sources = rng.choice(values), rng.choice(values)
        values.append(b.binary(op, *sources, device=self.device(), control=control))

    def _captured(self, values: Sequence[Edge], refs: Sequence[Edge]) -> tuple[list[Edge], list[DType]]:
        chosen = self.rng.sample(list(values), min(len(values), 3))
        return [*chosen, *refs], [F] * len(chosen) + [F.ref] * len(refs)

    def _if(self, b: Builder, values: list[Edge], depth: int, refs: Sequence[Edge]) -> None:
        rng = self.rng
        pred = b.binary("Less", rng.choice(values), rng.choice(values), self.device(), dtypes.bool_)
        captures, types = self._captured(values, refs)
        branches = []
        count = rng.randint(1, 3)
        for _ in range(2):
            inner = Builder(f"{b.prefix}if{len(b.nodes)}/")
            args = [inner.arg(t) for t in types]
            mine = [a for a, t in zip(args, types) if not t.is_ref]
            inner_refs = [a for a, t in zip(args, types) if t.is_ref]
            self._grow(inner, mine, rng.randint(0, 4), depth - 1, inner_refs)
            for _ in range(count):
                inner.ret(rng.choice(mine))
            branches.append(inner)
        index = b.branch(pred, captures, branches, [F] * count, device=rng.choice(["", self.device()]))
        values.extend((index, j) for j in range(count))

    def _while(self, b: Builder, values: list[Edge], depth: int, refs: Sequence[Edge]) -> None:
        rng = self.rng
        captures, types = self._captured(values, refs)
        count = rng.randint(1, 3)
        start = [b.const(0.0, self.device())] + [rng.choice(values) for _ in range(count)]
        cond, body = Builder(f"{b.prefix}loop{len(b.nodes)}c/"), Builder(f"{b.prefix}loop{len(b.nodes)}b/")
        turns = rng.randint(0, 3)
        args = [cond.arg(t) for t in [F] * len(start) + types]
        limit = cond.const(float(turns), self.device())
        cond.ret(cond.binary("Less", args[0], limit, self.device(), dtypes.bool_))
        args = [body.arg(t) for t in [F] * len(start) + types]
        one = body.const(1.0, self.device())
        following = body.binary("Add", args[0], one, self.device())
        mine = [a for a, t in zip(args, [F] * len(start) + types) if not t.is_ref]
        inner_refs = [a for a, t in zip(args, [F] * len(start) + types) if t.is_ref]
        self._grow(body, mine, rng.randint(0, 4), depth - 1, inner_refs)
        body.ret(following)
        for _ in range(count):
            body.ret(rng.choice(mine))
        if rng.random() < 0.3:
            body.ret(rng.choice(mine))  # saved
        index = b.loop(start, captures, cond, body, [F] * len(start), device=rng.choice(["", self.device()]))
        values.extend((index, j) for j in range(len(start)))


class Wasteful(Program):
    """A program with much that can be left out: repetitions, neutral elements, constants, chains."""

    def _compute(self, b: Builder, values: list[Edge]) -> None:
        rng = self.rng
        kind = rng.randrange(7)
        x = rng.choice(values)
        device = b.nodes[x[0]].device or self.device()
        if kind == 0:
            for _ in range(2):
                values.append(b.binary("Maximum", x, values[0], device))
        elif kind == 1:
            neutral = b.const(rng.choice([1.0, 1.0, 2.0]), device)
            first, second = rng.sample([x, neutral], 2)
            values.append(b.binary("Mul", first, second, device))
        elif kind == 2:
            op, zero = rng.choice([("Sub", 0.0), ("Add", -0.0)])
            values.append(b.binary(op, x, b.const(zero, device), device))
        elif kind == 3:
            values.append(b.add("Neg", [b.add("Neg", [x], device=device)], device=device))
        elif kind == 4:
            values.append(b.add("Identity", [x], device=device, control=[rng.choice(values)[0]][: rng.randrange(2)]))
        elif kind == 5:
            for _ in range(rng.randint(2, 5)):
                x = b.binary(rng.choice(["Add", "Sub", "Minimum"]), x, rng.choice([x, values[0]]), device)
            values.append(x)
        else:
            super()._compute(b, values)


def stripped(nodes: Sequence[Node]) -> list[Node]:
    """The same without devices."""
    made = []
    for n in nodes:
        attrs = {
            k: Subgraph(stripped(v.nodes), v.inputs, v.outputs) if isinstance(v, Subgraph) else v
            for k, v in n.attrs.items()
        }
        made.append(Node(n.name, n.op, n.inputs, n.control, "", attrs, n.dtypes))
    return made
