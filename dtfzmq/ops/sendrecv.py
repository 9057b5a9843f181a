"""What plans are sewn together with. The compiler carries these out itself; here stand their signatures."""

from __future__ import annotations

from typing import Any

from dtfzmq.base.shapes import UNKNOWN
from dtfzmq.graph.registry import NO_GRAD, op
from dtfzmq.graph.shape_rules import none

_NEVER = NO_GRAD("made after gradients are")
_ROUTE = (
    "tensor_name: str, send_device: str, recv_device: str, send_device_incarnation: int, "
    "client_terminated: bool = False"
)


def _one_unknown(n: Any) -> list[Any]:
    return [UNKNOWN]


_arg = op("_Arg", "; index: int, dtype: type -> value: dtype", shape=_one_unknown, grad=NO_GRAD("has no input"))
_retval = op("_Retval", "value: T; index: int ->", shape=none, grad=_NEVER)
_send = op("_Send", f"tensor: T; {_ROUTE} ->", shape=none, grad=_NEVER)
_recv = op("_Recv", f"; dtype: type, {_ROUTE} -> tensor: dtype", shape=_one_unknown, grad=_NEVER)
