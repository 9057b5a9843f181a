"""What a link can be told: sizes and limits, with the defaults that a cluster runs with."""

from __future__ import annotations

import dataclasses

KIB = 1024
MIB = 1024 * 1024


@dataclasses.dataclass(frozen=True)
class LinkSettings:
    """Sizes in bytes, times in seconds. The two ends of a link may differ in all of them but the protocol."""

    #: A tensor up to this size is pushed whole; a larger one is announced.
    inline_limit: int = 64 * KIB
    #: Size of one chunk of an announced tensor; larger ones are no faster, and on a slow line wait for each other.
    chunk: int = 256 * KIB
    #: Bytes of chunks to one peer that lie below us (libzmq, kernel, the peer's queue).
    bulk_window: int = 4 * MIB
    #: The same for the control lane: pushes, requests, replies.
    control_window: int = 4 * MIB
    #: Small tensors of one push are cut into messages of about this size.
    batch: int = 256 * KIB
    #: A frame above this is refused by libzmq, with its connection.
    max_frame: int = 16 * MIB
    #: A tensor above this is refused by its receiver before memory is reserved.
    max_tensor: int = 1 << 40
    #: A header whose body is above this travels as an announced transfer.
    max_header: int = 256 * KIB
    #: A peer that is silent or unreachable for this long is lost.
    limit: float = 5.0
    #: A peer that refuses connections for this long after it was up is lost: nobody listens there.
    refused_limit: float = 0.5
    #: A client whose connection ended comes back within this, or is lost: nobody can call it.
    client_limit: float = 1.0
    #: A task that was never reached is waited for this long.
    connect_limit: float = 30.0
    #: One attempt to connect.
    connect_timeout: float = 2.0
    #: Who connects says who it is within this, or its connection is ended.
    hello_limit: float = 5.0
    #: A hello is answered within this, or with a word that somebody else is asked first.
    welcome_limit: float = 3.0
    #: An acknowledgement that has nothing to ride on waits this long.
    ack_delay: float = 0.02
    #: First and longest pause between attempts to connect.
    backoff: float = 0.02
    max_backoff: float = 1.0
    #: Tensors of at least `shared_limit` bytes to a peer of the same host go through shared memory.
    shared_memory: bool = False
    shared_limit: int = 256 * KIB
    #: Bytes of warm memory kept for tensors to come; segments that are asked for again and again are kept above it.
    pool: int = 512 * MIB
    #: Seconds that such memory is kept unused.
    pool_age: float = 2.0
    #: A parked tensor or announcement is evicted after this, or above so many bytes. What begins its step may be behind
    #: two full windows of the control lane, which take half of this on a line of 0.5 Mbit/s.
    park_age: float = 300.0
    park_bytes: int = 256 * MIB
    #: Steps of which is remembered that a link carried a push, if nobody tells that they are over.
    recent_steps: int = 2000
    #: A finished step is remembered this long, so that what comes late is dropped.
    tombstone_age: float = 120.0

    @property
    def silence(self) -> float:
        """The connection of a peer that is dead, stopped or cut off has ended after this: heartbeats found out.

        One that still stands is a living process, even if it answers nothing.
        """
        return 0.6 * self.limit
