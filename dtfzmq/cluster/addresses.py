"""Targets and addresses: "zmq://host:port" of a session, "host:port" of a task."""

from __future__ import annotations

import logging

from dtfzmq.base import errors
from dtfzmq.wire import addresses

_log = logging.getLogger("dtfzmq")
_warned: list[str] = []


def split_address(address: str) -> tuple[str, int] | None:
    """("host", port) of "host:port" or "[::1]:port"; None if it is not one. A host's brackets are kept off."""
    if address.startswith(":") or "//" in address:
        return None
    try:
        return addresses.parse(address)
    except errors.InvalidArgumentError:
        return None


def join_address(host: str, port: int) -> str:
    """ "host:port", with brackets round an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def target_address(target: str) -> str:
    """The "host:port" of a session's target, which is "zmq://host:port"; "grpc://" is taken too, with one warning.

    NotFoundError for another scheme, InvalidArgumentError without host and port.
    """
    scheme, found, address = target.partition("://")
    if not found or scheme not in ("zmq", "grpc"):
        raise errors.NotFoundError(
            None,
            None,
            f'No session factory registered for the given session options: {{target: "{target}"}} '
            "Registered factories are {DIRECT_SESSION, ZMQ_SESSION}. Give a target like zmq://host:port.",
        )
    pair = split_address(address)
    if pair is None or pair[1] == 0:
        raise errors.InvalidArgumentError(
            None, None, f'Could not interpret "{address}" as a host-port pair. Give a target like zmq://host:2222.'
        )
    if scheme == "grpc" and not _warned:
        _warned.append(target)
        _log.warning("'grpc://' is taken as 'zmq://': servers here speak ZeroMQ, not gRPC (said once).")
    return address
