"""One call signature of a session: its fetches and feeds, worked out once and looked up by what `run` was given."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.client.feeds import FeedSlot, fed_tensors, flatten
from dtfzmq.client.fetches import Fetches
from dtfzmq.graph.graph import Graph, Tensor

_NESTED = (list, tuple, dict)


def structure(fetches: Any) -> Any:
    """A hashable stand-in for a fetch argument: equal for equal structures of the same elements.

    What is not hashable stays so, and the caller's look-up raises TypeError.
    """
    kind = type(fetches)
    if isinstance(fetches, dict):
        return (kind, tuple(fetches), tuple([structure(f) for f in fetches.values()]))
    if kind is list or isinstance(fetches, tuple):
        return (kind, *[structure(f) if isinstance(f, _NESTED) else f for f in fetches])
    return fetches


class Recent:
    """A table of calls that keeps the `most` / 2 used last, and up to as many before them. Any threads."""

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._young: dict[Any, Call] = {}
        self._old: dict[Any, Call] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: Any) -> Call | None:
        """What was put under `key`, if it is still here. TypeError for a key that has no hash."""
        call = self._young.get(key)
        if call is None:
            call = self._old.pop(key, None)
            if call is not None:
                self.put(key, call)
        return call

    def put(self, key: Any, call: Call) -> None:
        """Keep `call` under `key`."""
        young = self._young
        if len(young) >= self._half:
            self._old, self._young = young, {}
        self._young[key] = call

    def clear(self) -> None:
        """Forget all."""
        self._young, self._old = {}, {}


class Call:
    """A signature with its number at the master. Immutable but for `known`, which says that the master has its names.

    The number is a digest of the signature: the master keeps each signature once, and no session a table of them. A
    master that has given the signature up says that it does not know the number, and is sent the names again.

    `signature` names feeds, fetches and targets for the wire, each sorted, so that the order in which a program writes
    them makes no difference to the master. `feed_order` and `fetch_order` lead from there and back; None: the same.
    """

    __slots__ = (
        "build",
        "feed_order",
        "fetch_order",
        "fetches",
        "known",
        "local",
        "number",
        "plain",
        "scalar",
        "signature",
        "slots",
        "watch",
    )

    def __init__(self, fetches: Fetches, tensors: Sequence[Tensor], plain: bool) -> None:
        self.fetches = fetches
        self.build = fetches.build
        self.scalar = fetches.single
        self.slots = [FeedSlot(t) for t in tensors]
        # True if the feeds are the values of feed_dict, one by one.
        self.plain = plain
        self.known = False
        #: Told of each run, before it is asked for, by what it can be ended; it may raise instead.
        self.watch: Callable[[Callable[[errors.OpError], None]], None] | None = None
        fed = {t: i for i, t in enumerate(tensors)}
        if len(fed) != len(tensors):
            twice = next(t for i, t in enumerate(tensors) if t in tensors[:i])
            raise errors.InvalidArgumentError(None, None, f'Endpoint "{twice.name}" fed more than once.')
        # (position among the fetched tensors, position among the feeds): answered from the feed itself.
        self.local = [(i, fed[t]) for i, t in enumerate(fetches.tensors) if t in fed]
        asked = [(i, t) for i, t in enumerate(fetches.tensors) if t not in fed]
        by_name = sorted(asked, key=lambda pair: pair[1].name)
        order = [i for i, _ in by_name]
        self.fetch_order = None if order == list(range(len(fetches.tensors))) else order
        feeds = sorted(range(len(tensors)), key=lambda i: tensors[i].name)
        self.feed_order = None if feeds == list(range(len(tensors))) else feeds
        self.signature = (
            tuple(tensors[i].name for i in feeds),
            tuple(t.name for _, t in by_name),
            tuple(sorted(op.name for op in fetches.targets)),
        )
        digest = hashlib.blake2b(repr(self.signature).encode(), digest_size=8).digest()
        self.number = int.from_bytes(digest, "big") >> 1

    @property
    def empty(self) -> bool:
        """Whether there is nothing to ask the master for."""
        return not self.signature[1] and not self.signature[2]

    def feeds(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Converted values in the order of the signature."""
        order = self.feed_order
        return list(values) if order is None else [values[i] for i in order]

    def results(self, fetched: list[Any], values: Sequence[np.ndarray]) -> list[Any]:
        """What came back, and what was answered from the feeds, in the order of `fetches.tensors`."""
        order = self.fetch_order
        if order is None:
            return fetched
        placed: list[Any] = [None] * len(self.fetches.tensors)
        for i, value in zip(order, fetched):
            placed[i] = value
        for i, k in self.local:
            placed[i] = values[k]
        return placed


def prepare(graph: Graph, fetches: Any, feed_dict: Mapping[Any, Any] | None) -> tuple[Call, list[Any]]:
    """The call for what `run` was given, and the values fed, one for each of its slots."""
    compiled = Fetches(graph, fetches)
    pairs = list(flatten(graph, feed_dict)) if feed_dict is not None else []
    plain = feed_dict is None or len(pairs) == len(feed_dict) and all(isinstance(k, (Tensor, str)) for k in feed_dict)
    return Call(compiled, [t for t, _ in pairs], plain), [v for _, v in pairs]


def values_of(graph: Graph, call: Call, feed_dict: Mapping[Any, Any]) -> list[np.ndarray] | None:
    """The converted values of a repeated call with nested feeds; None if it is another one.

    Equal keys may feed other tensors than before: a SparseTensor's value may come without its shape.
    """
    pairs = list(flatten(graph, feed_dict))
    slots = call.slots
    if len(pairs) != len(slots) or any(tensor is not slot.tensor for slot, (tensor, _) in zip(slots, pairs)):
        return None
    return [slot.convert(value) for slot, (_, value) in zip(slots, pairs)]


def parts(graph: Graph, key: Any, value: Any) -> list[Any]:
    """The values of all tensors of a nested feed key. InvalidArgumentError for a value that lacks any of them."""
    pairs = list(flatten(graph, {key: value}))
    missing = [tensor.name for tensor in fed_tensors(graph, key)[len(pairs) :]]
    if missing:
        raise errors.InvalidArgumentError(
            None, None, f"You must feed a value for placeholder tensor '{missing[0]}', too: {value!r:.80} has none."
        )
    return [value for _, value in pairs]


def owned(value: Any) -> Any:
    """A fetched value as the caller gets it: a numpy scalar or bytes for shape (), else a writeable array."""
    if type(value) is np.ndarray:
        if value.ndim == 0:
            return value[()]
        if not value.flags.writeable:
            return value.copy()
    return value
