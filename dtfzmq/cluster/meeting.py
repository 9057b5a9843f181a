"""How the feeds and fetches of a partial run go through the rendezvous of its step."""

from __future__ import annotations

from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph.node import Node
from dtfzmq.runtime.rendezvous import prefix

# What a partial run's keys end with: it has no loops around its feeds and fetches.
FRAME = "0:0"


def feed_key(index: int, device: str) -> str:
    """The key, without its frame, under which feed `index` of a part is given."""
    return prefix(device, 0, device, f"feed_{index}")


def fetch_key(index: int, device: str) -> str:
    """The key, without its frame, under which fetch `index` of a part is taken."""
    return prefix(device, 0, device, f"fetch_{index}")


def through_rendezvous(nodes: list[Node], home: str) -> list[Node]:
    """A part with a `_Recv` for each `_Arg` and a `_Send` for each `_Retval`; `home` where a node has no device."""
    made = list(nodes)
    devices = {i: node.device for i, node in enumerate(nodes) if node.device}
    for node in nodes:
        for source, _ in node.inputs:
            if nodes[source].op == "_Arg" and node.device:
                devices.setdefault(source, node.device)
    for i, node in enumerate(nodes):
        if node.op == "_Arg":
            device = devices.get(i, home)
            dtype = node.dtypes[0].base_dtype
            attrs = _attrs(feed_key(node.attrs["index"], device), device, f"feed_{node.attrs['index']}", dtype)
            made[i] = Node(node.name, "_Recv", (), (), device, attrs, (dtype,))
        elif node.op == "_Retval":
            source, out = node.inputs[0]
            device = node.device or devices.get(source, home)
            dtype = nodes[source].dtypes[out].base_dtype
            attrs = _attrs(fetch_key(node.attrs["index"], device), device, f"fetch_{node.attrs['index']}", dtype)
            made[i] = Node(f"{node.name}_out", "_Send", node.inputs, node.control, device, attrs, ())
    return made


def meeting_keys(nodes: list[Node]) -> dict[str, str]:
    """ "feed_0" and "fetch_0" of a part made by `through_rendezvous` -> their whole keys; {} for any other part."""
    found = {}
    for node in nodes:
        if node.op in ("_Recv", "_Send") and node.attrs["tensor_name"].startswith(("feed_", "fetch_")):
            found[node.attrs["tensor_name"]] = node.attrs["key"] + FRAME
    return found


def _attrs(key: str, device: str, tensor_name: str, dtype: dtypes.DType) -> dict[str, Any]:
    return {
        "tensor_name": tensor_name,
        "send_device": device,
        "recv_device": device,
        "send_device_incarnation": 0,
        "key": key,
        "T": dtype,
    }
