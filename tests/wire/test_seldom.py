"""Lines that peers cause: one of a kind in a while, with the number of those left out."""

from __future__ import annotations

import contextlib
import socket

import pytest
import zmq

from dtfzmq.wire import seldom
from dtfzmq.wire.settings import LinkSettings
from tests.wire.test_zmq_links import TASK, Client


def test_each_subject_is_said_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    said = seldom.Seldom(lambda: now)
    for tick in range(25):
        now = float(tick)
        said.warn("a", f"a {tick}")
        said.warn("b", "b") if tick == 3 else None
    assert [record.getMessage() for record in caplog.records] == [
        "a 0",
        "b",
        "a 10 (9 more like this were left out)",
        "a 20 (9 more like this were left out)",
    ]
    assert len(said._said) == 2


def test_subjects_that_are_remembered_are_few(caplog: pytest.LogCaptureFixture) -> None:
    said = seldom.Seldom(lambda: 0.0)
    for number in range(3 * seldom._MOST):
        said.warn(number, "text")
    assert len(said._said) == seldom._MOST and len(caplog.records) == 3 * seldom._MOST


def test_a_peer_that_errs_again_and_again_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Both ways: what we dial, and who dials us."""
    context = zmq.Context()
    other = context.socket(zmq.ROUTER)
    other.linger = 0
    port = other.bind_to_random_port("tcp://127.0.0.1")
    client, server = Client(LinkSettings(backoff=0.001, max_backoff=0.001, limit=60.0)), Client(name=TASK)
    with server.loop.held():
        bound = server.endpoint.bind("127.0.0.1:0")
    link = client.link(f"127.0.0.1:{port}")
    answered = 0
    while answered < 5:
        assert other.poll(30_000)
        other.send_multipart([other.recv_multipart()[0], b"\x91\x01"])
        answered += 1
    assert client.wait_for(lambda: link._diallers[0]._next > 5)
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", int(bound.rpartition(":")[2]))) as noise:
            noise.sendall(b"\xff" + b"x" * 100)
            with contextlib.suppress(ConnectionResetError):
                while noise.recv(100):
                    pass
        dealer = context.socket(zmq.DEALER)
        dealer.connect(bound.replace("zmq", "tcp"))
        dealer.send(b"no hello")
        assert dealer.poll(30_000) and dealer.recv() == b"", "the server closes it"
        dealer.close(0)
    for each in (client, server):
        each.close()
    other.close()
    context.term()
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert sum(f"127.0.0.1:{port}" in line for line in lines) == 1, lines
    assert 1 <= len(lines) <= 3, lines
