"""A compiled part: flat code over numbered slots, cut into segments where something waits.

An instruction is a tuple ``(kind, fn, a, b, out, free, node name)``: `a` and `b` are slots that it reads (a tuple of
slots in `a` for the general kinds), `out` the slot or slots it writes, `free` slots it empties (None: none).

A segment is a list of instructions that run one after another without waiting: those that wait for the same set of
asynchronous ops. It is ready once those that its nodes take something from have delivered, and the segments that its
nodes depend on, which wait for a part of the same, have run.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import clock, errors
from dtfzmq.graph.node import Node
from dtfzmq.runtime.cells import Busy
from dtfzmq.runtime.chains import OPERATORS, Chain

Instruction = tuple[int, Any, Any, Any, Any, Any, str]

# Kinds of instructions. Most frequent first, which is the order in which the interpreter asks.
BINARY = 0  # slots[out] = fn(slots[a], slots[b])
UNARY = 1  # slots[out] = fn(slots[a])
CALL = 2  # slots[out] = fn(*[slots[i] for i in a])
OVER_LEFT = 3  # BINARY that may write over slots[a], which dies here
OVER_RIGHT = 4  # BINARY that may write over slots[b]
OVER = 5  # UNARY that may write over slots[a]
NULLARY = 6  # slots[out] = fn()
EFFECT = 7  # fn(*...), no output
SPREAD = 8  # several outputs
SEND = 9  # fn: copy or None; a: slot or -1; b: (prefix, key at top, task or None)
BEGIN = 10  # asynchronous op `out` begins: fn(ctx, [inputs], done)
FLOW = 11  # If or While (fn) as asynchronous op `out`
FLOW_NOW = 12  # If or While (fn) in which nothing waits; several outputs
FETCH = 13  # slots[a] is fetch b, of a partial run


# A plan that computes longer than this before it waits again, on average, goes to the runner.
SHORT_S = 300e-6
# A plan that keeps a thread for longer does not run on its caller's, where signals would have to wait for its kernels.
BRIEF_S = 0.2
# A plan that computes on the baton for longer without waiting was believed to be short. Once it may be a collection of
# garbage; it is not believed a third time until so many runs in a row were not that long.
SURPRISE_S, SURPRISES, CALM = 20e-3, 2, 1000
# Inputs are large if one has more than so many bytes, or is a larger number (of what is computed, perhaps), and so many
# times as many as those a plan is known by.
FEW_BYTES, FEW_COUNT, TIMES = 64 * 1024, 1024, 4
# Of one that may take long so many kernels run between two looks at whether its step was cancelled.
FEW = 4

# What a `_Send` without input sends: only that it was reached counts.
NOTHING = np.zeros((0,), np.float32)
NOTHING.flags.writeable = False


class Plan:
    """The code of one node list on one device. Frozen once compiled, but for what `observe` takes in; any thread.

    template: initial slots, with constants. feeds: (slot, index of the feed). fetches: slot per output, or (slot,
    index) pairs for a part that yields some of many.
    """

    __slots__ = (
        "asyncs",
        "busy_s",
        "calm",
        "chunks",
        "copy_in",
        "copy_out",
        "dependents",
        "device",
        "feeds",
        "fetches",
        "followers",
        "holds",
        "known_bytes",
        "known_count",
        "longest_s",
        "meets",
        "outputs",
        "partial",
        "ready",
        "receives",
        "surprises",
        "sync",
        "task",
        "template",
        "waits",
        "windows",
    )

    def __init__(self, device: str, task: str) -> None:
        self.device = device
        self.task = task
        # What values pass on their way to the device and back; None where they are numpy's.
        self.copy_in: Callable[[Any], Any] | None = None
        self.copy_out: Callable[[Any], Any] | None = None
        self.template: list[Any] = []
        self.feeds: list[tuple[int, int]] = []
        self.fetches: list[tuple[int, int]] = []
        # Per segment: its code in pieces, between which cancellation is noticed.
        self.chunks: list[list[list[Instruction]]] = []
        # Per segment: number of asynchronous ops and segments it waits for, and the segments that wait for it.
        self.waits: list[int] = []
        self.followers: list[tuple[int, ...]] = []
        # Per asynchronous op: the segments that wait for it, and where its value goes (a slot, a tuple of slots, -1 for
        # nowhere) with the node's name.
        self.dependents: list[tuple[int, ...]] = []
        self.asyncs: list[tuple[Any, str]] = []
        # What arrives from outside: (prefix, key at the top, asynchronous op, copy or None); for a feed of a partial
        # run the prefix is empty and its index stands for the copy.
        self.receives: list[tuple[str, str, int, Any]] = []
        # Of a While's body: (prefix, asynchronous op, n) for a signal from the share that this one may be n iterations
        # ahead of, sent in the iteration so many before.
        self.windows: list[tuple[str, int, int]] = []
        # Segments that wait for nothing.
        self.ready: list[int] = []
        # Something in it may hold a thread for long: it never runs on the baton.
        self.holds = False
        # It sends or receives.
        self.meets = False
        # Nothing in it waits.
        self.sync = True
        self.partial = False
        # Smoothed seconds that runs compute before they wait again; negative: never ran.
        self.busy_s = -1.0
        # The longest stretch that recent runs kept a thread for, in seconds; negative: never ran.
        self.longest_s = -1.0
        # A run with an input of more bytes, or a larger number, tells nothing of the others, nor they of it.
        self.known_bytes = FEW_BYTES
        self.known_count = FEW_COUNT
        # Times that it was long on the baton, and runs since it was last long anywhere.
        self.surprises = 0
        self.calm = 0

    def surprise(self, nbytes: int, count: int) -> None:
        """A run was long on the baton. Perhaps for a large input: from now on such ones are not known."""
        self.surprises += 1
        self.calm = 0
        if nbytes > FEW_BYTES:
            self.known_bytes = min(self.known_bytes, nbytes - 1)
        if count > FEW_COUNT:
            self.known_count = min(self.known_count, count - 1)

    def observe(self, seconds: float, longest: float, most: float = 0.0, nbytes: int = 0, count: int = 0) -> None:
        """Take in how long a run computed before it waited again.

        One run that was held up does not make a short plan long, but one long stretch makes the next ones expected.
        longest: its longest stretch off the baton; most: the longest that it computed for anywhere; nbytes: of its
        largest input; count: the largest size among them. A short plan that is long for large inputs stays a short one
        for others.
        """
        if (nbytes > self.known_bytes or count > self.known_count) and seconds >= SHORT_S and self._quick:
            return
        self.calm = self.calm + 1 if most <= SURPRISE_S else 0
        if self.calm >= CALM:
            self.surprises = 0
        self.known_bytes = max(self.known_bytes, TIMES * nbytes)
        self.known_count = max(self.known_count, TIMES * count)
        self.longest_s = max(longest, 0.75 * self.longest_s)
        known = self.busy_s
        self.busy_s = seconds if known < 0 else known + 0.25 * (min(seconds, 3 * SHORT_S) - known)

    @property
    def _quick(self) -> bool:
        return 0 <= self.busy_s < SHORT_S and not self.holds

    @property
    def short(self) -> bool:
        """True if it may run on the baton."""
        return self._quick and self.surprises < SURPRISES

    @property
    def brief(self) -> bool:
        """True if it may run on a thread on which signals wait for its kernels."""
        return 0 <= self.longest_s < BRIEF_S and self.surprises < SURPRISES

    def small_chunks(self, segment: int) -> list[list[Instruction]]:
        """A segment's instructions, a few at a time: between them it is seen that the step was cancelled."""
        return [code[k : k + FEW] for code in self.chunks[segment] for k in range(0, len(code), FEW)]

    def call(self, args: Sequence[Any], frame: Any) -> list[Any]:
        """Run a plan in which nothing waits; its outputs in order. `frame` is where it stands."""
        slots = self.template.copy()
        for slot, index in self.feeds:
            slots[slot] = args[index]
        run = interpret if frame.run.ctx.trace is None else interpret_traced
        for chunks in self.chunks:
            for code in chunks:
                run(code, slots, frame)
        return [slots[slot] for slot, _ in self.fetches]


def encoded(
    fn: Any, node: Node, ins: list[int], outs: list[int], free: tuple[int, ...] | None, over: int
) -> Instruction:
    """The instruction of a kernel, or of an If or While, that runs at once.

    `over`: the input over which it may write, or -1.
    """
    name = node.name
    if node.op in ("If", "While"):
        return FLOW_NOW, fn, tuple(ins), None, tuple(outs), free, name
    if not outs:
        return EFFECT, fn, tuple(ins), None, None, free, name
    if len(outs) > 1:
        return SPREAD, fn, tuple(ins), None, tuple(outs), free, name
    out = outs[0]
    if len(ins) == 2:
        if over >= 0:
            return OVER_LEFT if over == 0 else OVER_RIGHT, fn, ins[0], ins[1], out, free, name
        return BINARY, fn, ins[0], ins[1], out, free, name
    if len(ins) == 1:
        return UNARY if over < 0 else OVER, fn, ins[0], None, out, free, name
    if not ins:
        return NULLARY, fn, None, None, out, free, name
    return CALL, fn, tuple(ins), None, out, free, name


def suits(x: Any, y: Any) -> bool:
    """True if nobody else has the array `x`, so that a kernel may write over it a result shaped like `x` and `y`."""
    if y is not None and x.shape != y.shape and y.shape != ():
        return False
    flags = x.flags
    return bool(flags.owndata and flags.writeable)


def _count(slots: list[Any]) -> int:
    x = slots[0]
    return sys.getrefcount(x)


# What the interpreter counts for a value that only its slot holds.
_LONE = _count([np.empty(1)])


def interpret(code: list[Instruction], slots: list[Any], frame: Any) -> None:
    """Run `code` over `slots`. An exception leaves as an OpError that names the node.

    A Busy leaves as it is, with `frame.at` set to the instruction that raised it and did nothing. `frame.run` is the
    run.
    """
    array = np.ndarray
    count = sys.getrefcount
    quick = OPERATORS.get
    instruction: Any = None
    try:
        for instruction in code:
            kind, fn, a, b, out, free, _ = instruction
            if kind == 0:
                slots[out] = fn(slots[a], slots[b])
            elif kind == 1:
                slots[out] = fn(slots[a])
            elif kind == 2:
                slots[out] = fn(*[slots[i] for i in a])
            elif kind == 3:
                x = slots[a]
                if type(x) is array and count(x) == _LONE and suits(x, slots[b]):
                    slots[out] = fn(x, slots[b], out=x)
                else:
                    slots[out] = quick(fn, fn)(x, slots[b])
                del x
            elif kind == 4:
                x = slots[b]
                if type(x) is array and count(x) == _LONE and suits(x, slots[a]):
                    slots[out] = fn(slots[a], x, out=x)
                else:
                    slots[out] = quick(fn, fn)(slots[a], x)
                del x
            elif kind == 5:
                x = slots[a]
                if type(x) is array and count(x) == _LONE and suits(x, None):
                    slots[out] = fn(x, out=x)
                else:
                    slots[out] = quick(fn, fn)(x)
                del x
            elif kind == 6:
                slots[out] = fn()
            elif kind == 7:
                fn(*[slots[i] for i in a])
            elif kind == 8:
                for i, value in zip(out, fn(*[slots[i] for i in a])):
                    slots[i] = value
            elif kind == 9:
                frame.run.send(frame, slots[a] if a >= 0 else NOTHING, fn, b)
            elif kind == 12:
                for i, value in zip(out, fn.now(frame, [slots[i] for i in a])):
                    slots[i] = value
            elif kind == 13:
                frame.run.fetched(b, slots[a])
            else:
                frame.run.begin(frame, kind, fn, [slots[i] for i in a], out)
            if free is not None:
                for i in free:
                    slots[i] = None
    except Busy:
        frame.at = instruction
        raise
    except Exception as exc:
        assert instruction is not None
        error = errors.with_node(errors.wrap(exc), instruction[6])
        raise error from error.__cause__


def interpret_traced(code: list[Instruction], slots: list[Any], frame: Any) -> None:
    """`interpret` that tells the step's trace when each instruction began and how long it took."""
    run = frame.run
    trace, device = run.ctx.trace, run.plan.device

    def tell(name: str, start: float, seconds: float) -> None:
        trace.append((device, name, start, seconds))

    for one in code:
        if type(one[1]) is Chain:
            interpret([(one[0], functools.partial(one[1].traced, tell), *one[2:])], slots, frame)
            continue
        start = clock.perf()
        interpret([one], slots, frame)
        tell(one[6], start, clock.perf() - start)
