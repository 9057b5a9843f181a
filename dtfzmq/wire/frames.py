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
BYE = 6  # reason
ACK = 7  # received
CHUNK = 8  # transfer, offset, length; the bytes are the second frame
CREDIT = 9  # bytes of chunks that this lane brought so far

# Numbered: [kind, number, acknowledged, ...]
REQUEST = 16  # id, seconds left (0: no limit), body
REPLY = 17  # id, body
FAILURE = 18  # id, error
TELL = 19  # body
PUSH = 20  # step, keys, descriptors
ANNOUNCE = 21  # transfer, step, key, descriptor, segment or None
GRANT = 22  # transfer, way: 0 by the bulk lane, 1 taken from shared memory
REFUSE = 23  # transfer, reason, whether it is only that the step is over
REVOKE = 24  # transfers
CANCEL = 25  # id
RELEASE = 26  # transfers whose segment the receiver lets go of

_INT, _STR, _LIST, _MAP, _BOOL, _ANY, _REAL = (int,), (str,), (list,), (dict,), (bool,), (object,), (int, float)

_SHAPES: dict[int, tuple[tuple[type, ...], ...]] = {
    HELLO: (_LIST,),
    WELCOME: (_LIST,),
    REFUSED: (_LIST,),
    PING: (_INT,),
    PONG: (_INT,),
    BYE: (_STR,),
    ACK: (_INT,),
    CHUNK: (_INT, _INT, _INT),
    CREDIT: (_INT,),
    REQUEST: (_INT, _INT, _INT, _REAL, _LIST),
    REPLY: (_INT, _INT, _INT, _LIST),
    FAILURE: (_INT, _INT, _INT, _MAP),
    TELL: (_INT, _INT, _LIST),
    PUSH: (_INT, _INT, _INT, _LIST, _LIST),
    ANNOUNCE: (_INT, _INT, _INT, _INT, _STR, _LIST, _ANY),
    GRANT: (_INT, _INT, _INT, _INT),
    REFUSE: (_INT, _INT, _INT, _STR, _BOOL),
    REVOKE: (_INT, _INT, _LIST),
    CANCEL: (_INT, _INT, _INT),
    RELEASE: (_INT, _INT, _LIST),
}


def check(header: list[object]) -> int:
    """The kind of a header, proven to hold what its kind says. Raises WireError."""
    kind = header[0]
    shape = _SHAPES.get(kind) if type(kind) is int else None
    if shape is None:
        raise WireError(f"there is no kind of frame {kind!r:.40}")
    if len(header) <= len(shape):
        raise WireError(f"a frame of kind {kind} is too short")
    for value, allowed in zip(header[1:], shape):
        if type(value) not in allowed and allowed is not _ANY:
            raise WireError(f"a frame of kind {kind} holds {value!r:.40} where it must not")
    return kind  # type: ignore[return-value]  # it is an int, or it would have no shape
