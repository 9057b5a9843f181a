"""Large tensors through shared memory: proof of the host, leases, segments of the dead."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gc
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dtfzmq.base import errors
from dtfzmq.wire.segments import Segment, Segments
from tests.kit.peer import Answering, CountMe, Echo, Forget, PushMe
from tests.wire.test_zmq_links import PATIENT, TASK, Client, Peer

SHARED = dataclasses.replace(PATIENT, shared_memory=True)


@contextlib.contextmanager
def joined() -> Iterator[tuple[Client, Client, Any]]:
    server, client = Client(SHARED, name=TASK), Client(SHARED)
    service = Answering()
    service.endpoint = server.endpoint
    server.endpoint.service = service
    with server.loop.held():
        bound = server.endpoint.bind("127.0.0.1:0")
    yield server, client, client.link(bound)
    client.close()
    server.close()


@pytest.fixture
def pair() -> Iterator[tuple[Client, Client, Any]]:
    with joined() as made:
        yield made


def leased(server: Client) -> list[Segment]:
    with server.loop.held():
        sharing = [link.sharing for link in server.endpoint.links() if link.sharing is not None]
        return [lent.segment for each in sharing for lent in each.lent.values()]


def lent(server: Client) -> int:
    return len(leased(server))


def take(client: Client, link: Any, step: int, nbytes: int) -> Any:
    client.call(link, PushMe(step, nbytes))
    value = client.loop.wait(client.expect_push(step), 50)
    del client.pushed[step]
    return value


def test_a_pushed_tensor_is_a_lease_of_a_pooled_segment(pair: tuple[Client, Client, Any]) -> None:
    server, client, link = pair
    value = take(client, link, 1, 10 << 20)
    assert (value == 1).all() and not value.flags.writeable
    assert server.wait_for(lambda: lent(server) == 1)
    first = leased(server)[0]
    second = take(client, link, 2, 10 << 20)
    assert (value == 1).all() and (second == 2).all(), "a leased segment is not written again"
    del value, second
    gc.collect()
    assert server.wait_for(lambda: lent(server) == 0)
    third = take(client, link, 3, 10 << 20)
    assert server.wait_for(lambda: lent(server) == 1)
    fds = {s.fd for s in leased(server)}
    assert (third == 3).all() and first.fd >= 0 and len(fds) == 1
    assert link.statistics().bytes_in < 40 << 20


def test_segments_leased_by_a_lost_peer_are_discarded(pair: tuple[Client, Client, Any]) -> None:
    server, client, link = pair
    value = take(client, link, 1, 5 << 20)
    assert server.wait_for(lambda: lent(server) == 1)
    segment = leased(server)[0]
    with client.loop.held():
        link.lose(errors.CancelledError(None, None, "It was given up."), farewell="it was given up")
    assert server.wait_for(lambda: not server.endpoint.links())
    assert segment.fd == -1
    assert (value == 1).all(), "what a receiver maps stays, whoever else is gone"


def test_without_memory_for_a_segment_a_tensor_goes_by_the_lane(
    pair: tuple[Client, Client, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client, link = pair
    client.call(link, CountMe())

    def none(self: Segments, nbytes: int) -> Segment:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Segments, "take", none)
    value = take(client, link, 1, 3 << 20)
    assert (value == 1).all() and value.flags.writeable
    assert lent(server) == 0


@pytest.mark.parametrize("refusal", [PermissionError(13, "Permission denied"), OSError(24, "Too many open files")])
def test_where_a_segment_cannot_be_mapped_tensors_go_by_the_lane(
    pair: tuple[Client, Client, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refusal: OSError,
) -> None:
    server, client, link = pair
    client.call(link, CountMe())
    asked: list[int] = []
    made: list[Segment] = []
    whole = Segments.take

    def noted(self: Segments, nbytes: int) -> Segment:
        made.append(whole(self, nbytes))
        return made[-1]

    monkeypatch.setattr(Segments, "take", noted)

    def refused(self: Segments, pid: int, fd: int, inode: int, nbytes: int) -> Any:
        asked.append(nbytes)
        raise refusal

    monkeypatch.setattr(Segments, "map", refused)
    for step in (1, 2, 3):
        value = take(client, link, step, 3 << 20)
        assert (value == step).all() and value.flags.writeable
    fed = np.arange(1 << 20)
    assert np.array_equal(client.call(link, Echo(1, [fed])).tensors[0], fed), "each end learns it for itself"
    assert asked == [3 << 20, fed.nbytes], "what failed is not tried again"
    assert [segment.fd for segment in made] == [-1, -1], "chunks may still be sent out of them: none is written again"
    lines = [record for record in caplog.records if "by the lane" in record.message]
    assert len(lines) == 2 and str(refusal) in lines[0].message
    assert server.wait_for(lambda: lent(server) == 0 and not server.endpoint.links()[0].sending.all)
    assert link.statistics().bytes_in > 9 << 20


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.ENOSPC, errno.EMFILE, errno.EFBIG])
@pytest.mark.parametrize("refused", ["memfd_create", "posix_fallocate"])
@pytest.mark.parametrize("when", ["at the start", "later"])
def test_where_the_system_refuses_segments_tensors_go_by_the_lane(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, refused: str, when: str
) -> None:
    def refuse(*given: Any) -> Any:
        raise OSError(number, os.strerror(number))

    if when == "at the start":
        monkeypatch.setattr(os, refused, refuse)
    with joined() as (_, client, link):
        if when == "later":
            monkeypatch.setattr(os, refused, refuse)
        for step in (1, 2):
            value = take(client, link, step, 1 << 20)
            assert (value == step).all() and value.flags.writeable
        fed = np.arange(1 << 17)
        assert np.array_equal(client.call(link, Echo(1, [fed])).tensors[0], fed)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2, "each end says it once"
    assert all(os.strerror(number) in line and "sockets" in line for line in lines)


def test_an_end_that_cannot_map_still_lends(pair: tuple[Client, Client, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    server, client, link = pair
    prove = Segments.prove
    segments = server.endpoint._segments
    monkeypatch.setattr(Segments, "prove", lambda self, nonce: 0 if self is segments else prove(self, nonce))
    value = take(client, link, 1, 3 << 20)
    assert (value == 1).all() and not value.flags.writeable
    fed = np.arange(1 << 20)
    assert np.array_equal(client.call(link, Echo(1, [fed])).tensors[0], fed)
    with client.loop.held():
        assert not link.sharing.lent, "who has no right to map asks for nothing to be mapped"


def test_what_could_shrink_is_not_mapped() -> None:
    mine = Segments(1 << 20)
    loose = os.memfd_create("loose", os.MFD_CLOEXEC)
    try:
        os.ftruncate(loose, 8192)
        secret = bytes(16).hex()
        assert mine.prove(f"{os.getpid()}/{loose}/{secret}") == 0
        with pytest.raises((OSError, ValueError)):
            mine.map(os.getpid(), loose, os.fstat(loose).st_ino, 100)
        kept = mine.take(8192)
        with pytest.raises(PermissionError):
            os.ftruncate(kept.fd, 0)
    finally:
        os.close(loose)
        mine.close()


def test_between_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(TASK, "127.0.0.1:0", PATIENT.limit, "shared")
    client = Client(SHARED)
    link = client.link(peer.address, TASK)
    for step in (1, 2, 3):
        value = take(client, link, step, 20 << 20)
        assert (value == step).all() and not value.flags.writeable
        with client.loop.held():
            link.tell(Forget(step))
        del value
    peer.process.kill()
    client.close()
    peer.close()


def test_what_each_step_sends_is_kept_warm_even_above_the_limit() -> None:
    mine = Segments(8192)
    mine.give(mine.take(20_000))
    again = mine.take(20_000)
    mine.give(again)
    assert mine.take(20_000) is again
    mine.give(again)
    assert mine.trim() and again.fd >= 0
    assert mine.trim() and again.fd == -1, "not used between two trims"
    while mine.trim():
        pass
    later = mine.take(20_000)
    mine.give(later)
    assert later.fd == -1, "what was asked for long ago is forgotten"
    mine.close()


def test_memory_that_ends_amid_a_tensor_sends_it_by_the_lane(
    pair: tuple[Client, Client, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client, link = pair
    client.call(link, CountMe())
    granted = os.posix_fallocate

    def scarce(fd: int, start: int, length: int) -> None:
        if start:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        granted(fd, start, length)

    monkeypatch.setattr(os, "posix_fallocate", scarce)
    for step in (1, 2):
        value = take(client, link, step, 20 << 20)
        assert (value == step).all() and value.flags.writeable
    small = take(client, link, 3, 1 << 20)
    assert (small == 3).all() and not small.flags.writeable, "what fits still goes by a segment"


def test_the_host_is_proven_by_mapping_and_by_nothing_else() -> None:
    mine = Segments(1 << 20)
    assert mine.prove(mine.nonce) == os.getpid()
    pid, fd, secret = mine.nonce.split("/")
    for lie in ("", "1/2", f"{pid}/{fd}/{'0' * 32}", f"{pid}/999999/{secret}", f"999999999/{fd}/{secret}"):
        assert mine.prove(lie) == 0
    assert mine.prove(f"../{fd}/{secret}") == 0
    mine.close()
    assert mine.prove(mine.nonce) == 0


def test_a_warm_segment_is_used_again_and_the_pool_is_bounded() -> None:
    mine = Segments(8192)
    first = mine.take(5000)
    assert first.size == 8192
    mine.give(first)
    assert mine.take(6000) is first
    other = mine.take(20_000)
    mine.give(first)
    mine.give(other)
    assert other.fd == -1 and first.fd >= 0
    first.write(0, np.arange(100, dtype=np.uint8))
    assert np.array_equal(mine.map(os.getpid(), first.fd, first.inode, 100), first.data[:100])
    with pytest.raises(ValueError, match="too short"):
        mine.map(os.getpid(), first.fd, first.inode, 10_000)
    mine.close()
    assert first.fd == -1
