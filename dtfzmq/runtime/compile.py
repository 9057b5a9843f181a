"""Node lists become plans: kernels are made, slots numbered, and the code is cut where something waits."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from dtfzmq.base import collecting, errors
from dtfzmq.graph import opdef
from dtfzmq.graph.node import Node, Subgraph
from dtfzmq.graph.opdef import OpDef
from dtfzmq.runtime import plan as code
from dtfzmq.runtime.cells import thread_state
from dtfzmq.runtime.chains import OPERATORS, Chain, ends_of
from dtfzmq.runtime.flow import If, While
from dtfzmq.runtime.kernel_env import KernelEnv
from dtfzmq.runtime.plan import Instruction, Plan
from dtfzmq.runtime.segments import cut
from dtfzmq.runtime.values import keep, lean

# Pieces of code between which a cancelled step stops.
CHUNK = 64

_read = operator.methodcaller("read")


def compile_nodes(nodes: Sequence[Node], env: KernelEnv, partial: bool = False, path: str = "") -> Plan:
    """The plan of a placed node list on the device of `env`; its kernels are made now.

    With `partial`, feeds may come while it runs and fetches leave as soon as they are there. Raises
    InvalidArgumentError for an op that is not registered or a kernel that refuses its attributes. `path` says of
    which subgraph these are the nodes.
    """
    with collecting.paused(len(nodes)):
        return _Compiler(nodes, env, partial, path).plan


def compile_function(subgraph: Subgraph, env: KernelEnv) -> Callable[..., list[Any]]:
    """See KernelEnv.compile."""
    plan = compile_nodes(subgraph.nodes, env)
    if not plan.sync or plan.meets:
        raise errors.InvalidArgumentError(None, None, "A function must not contain operations that wait.")

    def call(*inputs: Any) -> list[Any]:
        # A kernel that is halfway through cannot be run again, so a cell that is busy is waited for.
        before, thread_state.may_not_wait = thread_state.may_not_wait, False
        try:
            return plan.call(inputs, _FunctionFrame())
        finally:
            thread_state.may_not_wait = before

    return call


class _FunctionContext:
    trace = None
    error = None


class _FunctionRun:
    ctx = _FunctionContext()


class _FunctionFrame:
    """Where the code of a function stands: in no step."""

    run = _FunctionRun()
    at: Instruction | None = None
    number = 0
    iteration = 0


class _Value:
    """What is known of one output while slots are numbered."""

    __slots__ = ("fixed", "last", "segment", "slot")

    def __init__(self) -> None:
        self.slot = -1
        self.segment = -1  # the one segment that reads it; -2: several
        self.last = -1
        self.fixed = False  # a constant, feed-independent, or needed at the end: the slot is not reused


class _Compiler:
    def __init__(self, nodes: Sequence[Node], env: KernelEnv, partial: bool, path: str) -> None:
        self.nodes = nodes
        self.env = env
        self.path = path
        self.plan = plan = Plan(env.device, env.task)
        plan.partial = partial
        plan.copy_in, plan.copy_out = env.place.copy_in, env.place.copy_out
        # Values on the device are numpy's, so that what is known of numpy's holds.
        self.numpy = plan.copy_in is None
        self.kernels: list[Any] = [None] * len(nodes)
        self.definitions: list[OpDef | None] = [None] * len(nodes)
        self.is_async = bytearray(len(nodes))
        # True for values that may be views of the caller's memory.
        self.tainted = bytearray(len(nodes))
        for i, node in enumerate(nodes):
            self._prepare(i, node)
        plan.sync = not any(self.is_async)
        segments = cut(nodes, self.is_async)
        self.segment_of = segments.of
        plan.waits, plan.followers, plan.dependents = segments.waits, segments.followers, segments.dependents
        self.values: list[list[_Value]] = [[_Value() for _ in node.dtypes] for node in nodes]
        # By node that a later one computes: the last of its chain. By that: the others, in order.
        self.ends = ends_of(nodes, self.definitions, self.segment_of) if self.numpy else {}
        self.chains: dict[int, list[int]] = {}
        for i in sorted(self.ends):
            self.chains.setdefault(self.ends[i], []).append(i)
        self._trace_uses()
        self.emitted: list[list[Instruction]] = [[] for _ in plan.waits]
        self.pools: list[list[int]] = [[] for _ in plan.waits]
        self.async_number: dict[int, int] = {}
        for i, node in enumerate(nodes):
            self._emit(i, node)
        plan.fetches.sort(key=lambda item: item[1])
        for instructions in self.emitted:
            plan.chunks.append([instructions[k : k + CHUNK] for k in range(0, len(instructions), CHUNK)])
        plan.ready = [s for s, count in enumerate(plan.waits) if count == 0]

    # -- kernels ------------------------------------------------------------------------------------------------------

    def _prepare(self, i: int, node: Node) -> None:
        op, plan = node.op, self.plan
        if op == "_Arg":
            self.is_async[i] = plan.partial
            self.tainted[i] = 1
            return
        if op in ("_Retval", "Const"):
            return
        if op in ("_Send", "_Recv"):
            plan.meets = True
            self.is_async[i] = op == "_Recv"
            self.tainted[i] = any(self.tainted[s] for s, _ in node.inputs)
            return
        if op in ("If", "While"):
            self._prepare_flow(i, node)
            return
        definition = opdef.find(op)
        if definition is None:
            raise errors.with_node(
                errors.InvalidArgumentError(None, None, f"No OpKernel was registered to support Op '{op}'."), node.name
            )
        self.definitions[i] = definition
        plan.holds |= definition.holds
        if definition.start is not None:
            self.is_async[i] = 1
        if not definition.out:
            self.tainted[i] = any(self.tainted[s] for s, _ in node.inputs)
        key = self.path + node.name
        cached = self.env.kernels.get(key) if definition.stateful else None
        if cached is not None:
            self.kernels[i] = cached
            return
        try:
            if definition.start is not None:
                kernel = definition.start(node, self.env)
            else:
                kernel = definition.kernel_of(node, self.env)
        except KeyError as exc:
            lacks = errors.InvalidArgumentError(None, None, f"A node of type {op} lacks the attribute {exc}.")
            raise errors.with_node(lacks, node.name) from None
        except Exception as exc:
            raise errors.with_node(errors.wrap(exc), node.name) from exc
        if kernel is None:
            raise errors.with_node(
                errors.InvalidArgumentError(None, None, f"No OpKernel was registered to support Op '{op}'."), node.name
            )
        self.kernels[i] = self.env.kernels.setdefault(key, kernel) if definition.stateful else kernel

    def _prepare_flow(self, i: int, node: Node) -> None:
        kind = If if node.op == "If" else While
        made = kind(node, lambda inner, path: compile_nodes(inner.nodes, self.env, False, self.path + path))
        self.kernels[i] = made
        plan = self.plan
        plan.meets |= made.meets
        plan.holds |= made.holds
        self.is_async[i] = not made.sync
        self.tainted[i] = any(self.tainted[s] for s, _ in node.inputs)

    # -- segments -----------------------------------------------------------------------------------------------------

    def _trace_uses(self) -> None:
        values, segment_of = self.values, self.segment_of
        for i, node in enumerate(self.nodes):
            segment = segment_of[i]
            last = self.ends.get(i, i)
            for s, out in node.inputs:
                value = values[s][out]
                if value.segment == -1:
                    value.segment = segment
                elif value.segment != segment:
                    value.segment = -2
                value.last = max(value.last, last)
                if node.op == "_Retval" and not node_reads(self.nodes[s], out):
                    value.fixed = True
            if node.op == "Const":
                values[i][0].fixed = True

    # -- code ---------------------------------------------------------------------------------------------------------

    def _new_slot(self) -> int:
        self.plan.template.append(None)
        return len(self.plan.template) - 1

    def _from_pool(self, segment: int) -> int:
        pool = self.pools[segment]
        return pool.pop() if pool else self._new_slot()

    def _emit(self, i: int, node: Node) -> None:
        op = node.op
        if op == "Const":
            self._emit_constant(i, node)
            return
        if op == "_Arg" and not self.plan.partial:
            self.values[i][0].slot = slot = self._new_slot()
            self.plan.feeds.append((slot, node.attrs["index"]))
            return
        segment = self.segment_of[i]
        out_code = self.emitted[segment]
        if i in self.ends:
            return
        kernel = self.kernels[i]
        if i in self.chains:
            node, kernel = self._chain(i)
        ins, dying = self._inputs(i, node, segment, out_code)
        if op == "_Retval":
            slot = ins[0]
            self.plan.fetches.append((slot, node.attrs["index"]))
            if self.plan.partial:
                out_code.append((code.FETCH, None, slot, node.attrs["index"], None, None, node.name))
            return
        if self.is_async[i]:
            self._emit_async(i, node, segment, ins, dying)
            return
        if op == "_Send":
            self._emit_send(i, node, segment, ins, dying)
            return
        values = self.values[i]
        over = self._over(i, node, dying) if len(values) == 1 and kernel is self.kernels[i] else -1
        outs: list[int] = []
        unread: list[int] = []
        left = list(dict.fromkeys(dying.values()))
        for value in values:
            if left and value.segment != -1:
                slot = left.pop()
            else:
                slot = self._from_pool(segment)
            value.slot = slot
            outs.append(slot)
            if value.segment == -1:
                unread.append(slot)
        free = left + unread
        self.pools[segment].extend(free)
        if over < 0 and len(ins) == 2 and self.numpy:
            kernel = OPERATORS.get(kernel, kernel)
        out_code.append(code.encoded(kernel, node, ins, outs, tuple(free) or None, over))

    def _chain(self, i: int) -> tuple[Node, Chain]:
        """The nodes that node i computes with itself, as one node, and its kernel."""
        nodes, members = self.nodes, [*self.chains[i], i]
        inside = set(members)
        edges = dict.fromkeys(e for k in members for e in nodes[k].inputs if e[0] not in inside)
        number: dict[tuple[int, int], int] = {edge: n for n, edge in enumerate(edges)}
        for k in members:
            number[k, 0] = len(number)
        sources = [tuple([number[e] for e in nodes[k].inputs]) for k in members]
        kernel = Chain([nodes[k] for k in members], [self.kernels[k] for k in members], sources, len(edges))
        return nodes[i].moved(tuple(edges), nodes[i].control), kernel

    def _emit_constant(self, i: int, node: Node) -> None:
        value = node.attrs["value"]
        value = lean(value)
        if self.plan.copy_in is not None:
            value = self.plan.copy_in(value)
        self.values[i][0].slot = slot = self._new_slot()
        self.plan.template[slot] = value

    def _inputs(
        self, i: int, node: Node, segment: int, out_code: list[Instruction]
    ) -> tuple[list[int], dict[int, int]]:
        """Slots of a node's inputs, references read first where a value is asked for; and which inputs die here."""
        ins: list[int] = []
        dying: dict[int, int] = {}
        nodes = self.nodes
        wanted = self._wants_ref(i, node)
        for position, (s, out) in enumerate(node.inputs):
            value = self.values[s][out]
            slot = value.slot
            dies = value.last == i and value.segment == segment and not value.fixed
            if node_reads(nodes[s], out) and not wanted(position):
                temporary = self._from_pool(segment)
                reader = nodes[s] if node.op == "_Retval" else node  # an error names an operation of the graph
                out_code.append((code.UNARY, _read, slot, None, temporary, None, reader.name))
                ins.append(temporary)
                dying[position] = temporary
                continue
            ins.append(slot)
            if dies:
                dying[position] = slot
        return ins, dying

    def _wants_ref(self, i: int, node: Node) -> Callable[[int], bool]:
        if node.op == "If":
            types = node.attrs["then_branch"].inputs
            return lambda k: k > 0 and types[k - 1].is_ref
        if node.op == "While":
            types, n_vars = node.attrs["body"].inputs, node.attrs["n_vars"]
            return lambda k: k >= n_vars and types[k].is_ref
        definition = self.definitions[i]
        if definition is None:
            return _no
        refs = ref_inputs(definition)
        return refs.__contains__ if refs else _no

    def _over(self, i: int, node: Node, dying: dict[int, int]) -> int:
        """The input over which the result may be written, if nobody else turns out to have it; or -1."""
        definition = self.definitions[i]
        if definition is None or not definition.out or len(node.inputs) > 2 or not self.numpy:
            return -1
        result = node.dtypes[0]
        for position in definition.inplace:
            if position not in dying:
                continue
            s, out = node.inputs[position]
            if self.nodes[s].dtypes[out] is not result or list(dying.values()).count(dying[position]) > 1:
                continue
            return position
        return -1

    def _emit_send(self, i: int, node: Node, segment: int, ins: list[int], dying: dict[int, int]) -> None:
        attrs = node.attrs
        prefix = attrs["key"]
        target = _task_prefix(attrs["recv_device"])
        task = None if target == self.env.task else target
        copy = self.plan.copy_out
        if copy is None and task is not None and node.inputs and self.tainted[node.inputs[0][0]]:
            copy = keep
        free = tuple(set(dying.values())) or None
        self.pools[segment].extend(free or ())
        slot = ins[0] if ins else -1
        self.emitted[segment].append(
            (code.SEND, copy, slot, (prefix, prefix + "0:0", task), None, free, node.name)
        )

    def _emit_async(self, i: int, node: Node, segment: int, ins: list[int], dying: dict[int, int]) -> None:
        plan = self.plan
        number = len(plan.asyncs)
        outs: list[int] = []
        for value in self.values[i]:
            # Delivered at any time: never a slot that code of another segment may use meanwhile.
            value.slot = -1 if value.segment == -1 else self._new_slot()
            outs.append(value.slot)
        where: Any = tuple(outs)
        if len(outs) == 1 and node.op not in ("If", "While"):
            where = outs[0]
        plan.asyncs.append((where, node.name))
        free = tuple(set(dying.values())) or None
        self.pools[segment].extend(free or ())
        if node.op == "_Recv":
            prefix = node.attrs["key"]
            if "window" in node.attrs:
                plan.windows.append((prefix, number, node.attrs["window"]))
            else:
                plan.receives.append((prefix, prefix + "0:0", number, plan.copy_in))
        elif node.op == "_Arg":
            plan.receives.append(("", "", number, node.attrs["index"]))
        else:
            kind = code.FLOW if node.op in ("If", "While") else code.BEGIN
            self.emitted[segment].append((kind, self.kernels[i], tuple(ins), None, number, free, node.name))


def node_reads(node: Node, out: int) -> bool:
    """True if output `out` is a reference, which is read where a value is asked for."""
    return node.dtypes[out].is_ref


def ref_inputs(definition: OpDef) -> frozenset[int]:
    """Positions of the inputs that take a reference."""
    known = _REFS.get(definition.name)
    if known is None:
        known = _REFS[definition.name] = frozenset(i for i, a in enumerate(definition.signature.inputs) if a.ref)
    return known


_REFS: dict[str, frozenset[int]] = {}


def _no(position: int) -> bool:
    return False


def _task_prefix(device: str) -> str:
    return device.partition("/device:")[0]
