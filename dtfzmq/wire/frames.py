"""The kinds of frames between two links, and what stands in their headers.

A header is the array ``[kind, ...]``. Messages with a number are repeated until they are acknowledged and go over the
control lane; the others belong to the lane that they are sent on.
"""

from __future__ import annotations

from dtfzmq.wire.message import WireError

# Of a lane: [kind, ...]
HELLO = 1  # Hello as a body
WELCOME = 2  # Welcome as a body
REFUSED = 3  # Refused as a body
PING = 4  # mark
PONG = 5  # mark
BYE = 6  # reason, and whether it is the process that leaves, and not this link alone (if it says so)
ACK = 7  # received
CHUNK = 8  # transfer, offset, length; the bytes are the second frame
CREDIT = 9  # bytes of chunks that this lane brought so far

# Numbered: [kind, number, acknowledged, ...]
REQUEST = 16  # id, seconds left (0: no limit), body
REPLY = 17  # id, body; and a small push that rides on it, if there is one: [step, keys, descriptors]
FAILURE = 18  # id, error
TELL = 19  # body
PUSH = 20  # step, keys, descriptors
ANNOUNCE = 21  # transfer, step, key, descriptor, whether it can come by shared memory
GRANT = 22  # transfer, way: 0 by the bulk lane (also after SHARED, if that is of no use), 1 by shared memory
REFUSE = 23  # transfer, reason, whether it is only that the step is over
REVOKE = 24  # transfers
CANCEL = 25  # id
RELEASE = 26  # transfers whose segment the receiver lets go of
SHARED = 27  # transfer, descriptor and inode of the segment that holds it; -1, 0: it must come by the lane

_SHAPES: dict[int, list[tuple[type, ...]]] = {
    HELLO: [(list,)],
    WELCOME: [(list,)],
    REFUSED: [(list,)],
    PING: [(int,)],
    PONG: [(int,)],
    BYE: [(str, bool), (str,)],
    ACK: [(int,)],
    CHUNK: [(int, int, int)],
    CREDIT: [(int,)],
    REQUEST: [(int, int, int, float, list)],
    REPLY: [(int, int, int, list), (int, int, int, list, list)],
    FAILURE: [(int, int, int, dict)],
    TELL: [(int, int, list)],
    PUSH: [(int, int, int, list, list)],
    ANNOUNCE: [(int, int, int, int, str, list, bool)],
    GRANT: [(int, int, int, int)],
    REFUSE: [(int, int, int, str, bool)],
    REVOKE: [(int, int, list)],
    CANCEL: [(int, int, int)],
    RELEASE: [(int, int, list)],
    SHARED: [(int, int, int, int, int)],
}
# Types of a whole header, the kind included: one look-up proves the usual one.
_EXACT = {kind: frozenset((int, *shape) for shape in shapes) for kind, shapes in _SHAPES.items()}


def check(header: list[object]) -> int:
    """The kind of a header, proven to hold what its kind says; fields after those are of later versions. WireError."""
    kind = header[0]
    exact = _EXACT.get(kind) if type(kind) is int else None
    if exact is None:
        raise WireError(f"there is no kind of frame {kind!r:.40}")
    types = tuple(map(type, header))
    if types in exact or any(types[: len(shape)] == shape for shape in exact):
        return kind  # type: ignore[return-value]  # it is an int, or it would have no shape
    raise WireError(f"a frame of kind {kind} does not hold what it must")
