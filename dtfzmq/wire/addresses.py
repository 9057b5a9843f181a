"""Addresses: "zmq://host:port" and its spellings, and the network addresses that a host name stands for."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import NamedTuple

from dtfzmq.base import errors

_NAME = re.compile(r"\w(?:[\w.-]*\w)?\.?")  # in any script
_PORT = re.compile(r"[0-9]{1,5}")
_SCHEMES = ("zmq://", "tcp://", "grpc://")


class Address(NamedTuple):
    """A host, as a name or number without brackets, and a port."""

    host: str
    port: int

    def text(self) -> str:
        """The canonical text."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"zmq://{host}:{self.port}"


def parse(text: str) -> Address:
    """Parse "host:port" with or without a scheme; an IPv6 number stands in brackets. Raises InvalidArgumentError."""
    rest = text
    for scheme in _SCHEMES:
        if rest.startswith(scheme):
            rest = rest[len(scheme) :]
            break
    host, colon, port = rest.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or int(port) > 65535:
        raise errors.InvalidArgumentError(None, None, f"'{text}' is not an address; write it like 'host:2222'.")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        named = is_literal(host)
    elif ":" in host:
        raise errors.InvalidArgumentError(None, None, f"Write the IPv6 address in '{text}' in brackets: '[::1]:2222'.")
    else:
        named = not host or _NAME.fullmatch(host) is not None
    if not named:
        raise errors.InvalidArgumentError(None, None, f"'{host}' in '{text}' is not a host; write it like 'host:2222'.")
    return Address(host or "localhost", int(port))


def is_literal(host: str) -> bool:
    """True if `host` is a number, so that it needs no look-up."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def is_wide(host: str) -> bool:
    """True if `host` means every interface of the machine that binds it."""
    return is_literal(host) and ipaddress.ip_address(host.partition("%")[0]).is_unspecified


def is_loopback(host: str) -> bool:
    """True if only this machine can reach `host`."""
    return host == "localhost" or (is_literal(host) and ipaddress.ip_address(host.partition("%")[0]).is_loopback)


def quick(host: str) -> list[str] | None:
    """Numbers of a host that need no look-up; None if it must be looked up, which may take long."""
    if host == "localhost":
        return ["127.0.0.1", "::1"]
    return [host] if is_literal(host) else None


def look_up(host: str) -> list[str]:
    """All numbers of a host, IPv4 first. May block for seconds; raises OSError if there are none."""
    fast = quick(host)
    if fast is not None:
        return fast
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that no host can have
        raise OSError(f"{host} is not a host name ({error})") from None
    numbers = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    return sorted(numbers, key=lambda n: ":" in n)


def endpoint(host: str, port: int) -> str:
    """libzmq's text of a TCP address."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
