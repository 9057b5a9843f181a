from __future__ import annotations

import socket
import sys

import pytest
import zmq

from dtfzmq.cli.ports import HeldPorts
from tests.kit.waiting import wait_for


@pytest.fixture
def held() -> HeldPorts:
    return HeldPorts(3)


def test_a_held_port_is_given_to_nobody_who_asks_for_a_free_one(held: HeldPorts) -> None:
    try:
        others = [socket.socket() for _ in range(300)]
        for other in others:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", 0))
        taken = {other.getsockname()[1] for other in others}
        for other in others:
            other.close()
        assert len(set(held.ports)) == 3
        assert not taken & set(held.ports)
    finally:
        held.close()


def bound(context: zmq.Context[zmq.Socket[bytes]], address: str) -> zmq.Socket[bytes] | None:
    server = context.socket(zmq.ROUTER)
    try:
        server.bind(address)
    except zmq.ZMQError:
        server.close()
        return None
    return server


def test_a_held_port_can_be_bound_by_zeromq_again_and_again_but_only_once_at_a_time(held: HeldPorts) -> None:
    assert sys.platform.startswith("linux")
    context = zmq.Context()
    address = f"tcp://127.0.0.1:{held.ports[0]}"
    try:
        for _ in range(3):
            server = wait_for(lambda: bound(context, address), 5.0)
            assert server is not None
            assert bound(context, address) is None
            server.close()  # libzmq lets go of the port a moment later
    finally:
        context.destroy(0)
        held.close()
