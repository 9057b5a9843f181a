"""``tf.test``: gradients checked by differences, and a TestCase for programs that test themselves."""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
import unittest
from typing import Any
from unittest import mock

import numpy as np

from dtfzmq.client.stack import get_default_session
from dtfzmq.cluster.server import Server
from dtfzmq.cluster.spec import ClusterSpec
from dtfzmq.compat.test_case import TestCase
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph, Operation, Tensor
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.ops.gradients import gradients

__all__ = [
    "TestCase", "assert_equal_graph_def", "compute_gradient", "compute_gradient_error", "create_local_cluster",
    "get_temp_dir", "gpu_device_name", "is_built_with_cuda", "is_built_with_gpu_support", "is_built_with_rocm",
    "is_built_with_xla", "is_gpu_available", "main", "mock",
]  # fmt: skip


def _real(array: Any) -> Any:
    """A flat view of real numbers: complex ones as pairs."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat


def _theoretical(x: Tensor, dx: Any, x_value: Any, dy: Tensor, y_shape: Any, extra: dict[Any, Any]) -> Any:
    session = get_default_session()
    y_value = np.zeros(y_shape, dy.dtype.as_numpy_dtype)
    columns = _real(y_value)
    x_size = _real(x_value).size
    jacobian = np.zeros((x_size, columns.size), columns.dtype)
    for col in range(columns.size):
        columns[col] = 1
        found = session.run(dx, {**extra, x: x_value, dy: y_value}) if dx is not None else np.zeros_like(x_value)
        columns[col] = 0
        if isinstance(dx, IndexedSlices):
            dense = np.zeros_like(x_value)
            np.add.at(dense, found.indices, found.values)
            found = dense
        jacobian[:, col] = _real(found)
    return jacobian


def _numeric(x: Tensor, x_value: Any, y: Tensor, delta: float, extra: dict[Any, Any]) -> Any:
    session = get_default_session()
    rows = _real(x_value)
    scale = np.asarray(2 * delta, y.dtype.real_dtype.as_numpy_dtype)
    jacobian = []
    for row in range(rows.size):
        before = rows[row]
        ends = []
        for moved in (before - delta, before + delta):
            rows[row] = moved
            ends.append(np.asarray(session.run(y, {**extra, x: x_value})))
        rows[row] = before
        jacobian.append(_real((ends[1] - ends[0]) / scale))
    return np.array(jacobian) if jacobian else np.zeros((0, y.shape.num_elements() or 0))


def _init_value(x: Tensor, shape: Any, given: Any) -> Any:
    dtype = x.dtype.base_dtype.as_numpy_dtype
    if given is not None:
        value = np.array(given, dtype, order="C")
        if list(value.shape) != list(shape):
            raise ValueError(f"x_init_value has shape {value.shape}, not {tuple(shape)}.")
        return value
    rng = np.random.default_rng()
    value = rng.random(shape)
    return np.array(value + 1j * rng.random(shape) if x.dtype.is_complex else value, dtype)


def compute_gradient(
    x: Any, x_shape: Any, y: Tensor, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3,
    init_targets: Any = None, extra_feed_dict: dict[Any, Any] | None = None,
) -> Any:  # fmt: skip
    """(theoretical, numeric) Jacobian of y in x, of shape [size of x, size of y]; for a list x a list of such pairs.

    Needs a default session. Complex numbers count as two. Raises ValueError without a session or for other shapes.
    """
    if get_default_session() is None:
        raise ValueError("compute_gradient needs a default session: `with tf.Session():`.")
    many = isinstance(x, (list, tuple))
    xs = [convert_to_tensor(t) for t in (x if many else [x])]
    shapes = list(x_shape) if many else [x_shape]
    inits = list(x_init_value) if many and x_init_value is not None else [x_init_value] * len(xs)
    dy = _placeholder_like(y, y_shape)
    grads = gradients(y, xs, grad_ys=dy)
    for target in init_targets if isinstance(init_targets, (list, tuple)) else [init_targets]:
        if target is not None:
            get_default_session().run(target)
    values = [_init_value(t, shape, given) for t, shape, given in zip(xs, shapes, inits)]
    pairs = []
    for i, (t, grad) in enumerate(zip(xs, grads)):
        others = {**(extra_feed_dict or {}), **{o: v for j, (o, v) in enumerate(zip(xs, values)) if j != i}}
        theoretical = _theoretical(t, grad, values[i], dy, y_shape, others)
        pairs.append((theoretical, _numeric(t, values[i], y, delta, others)))
    return pairs if many else pairs[0]


def _placeholder_like(y: Tensor, shape: Any) -> Tensor:
    dtype = y.dtype.base_dtype
    attrs = {"dtype": dtype, "shape": None}
    return y.graph.create_op("Placeholder", (), attrs, (dtype,), "grad_y", (tuple(shape),)).outputs[0]


def compute_gradient_error(
    x: Any, x_shape: Any, y: Tensor, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3,
    init_targets: Any = None, extra_feed_dict: dict[Any, Any] | None = None,
) -> float:  # fmt: skip
    """The largest difference between the gradients of y in x and differences of y. See `compute_gradient`."""
    found = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    pairs = found if isinstance(found, list) else [found]
    return max((float(np.fabs(a - b).max()) for a, b in pairs if a.size), default=0.0)


def assert_equal_graph_def(actual: Any, expected: Any) -> None:
    """Raise AssertionError unless two graphs (or lists of nodes) have the same operations."""

    def described(graph: Any) -> dict[str, str]:
        operations = graph.get_operations() if isinstance(graph, Graph) else list(graph)
        return {o.name: str(o) if isinstance(o, Operation) else repr(o) for o in operations}

    assert described(actual) == described(expected)


def is_built_with_cuda() -> bool:
    """False."""
    return False


is_built_with_gpu_support = is_built_with_rocm = is_built_with_xla = is_built_with_cuda


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """False: kernels are numpy's."""
    return False


def gpu_device_name() -> str:
    """No name: there is no GPU."""
    return ""


def get_temp_dir() -> str:
    """A folder for files of tests, the same one in one process."""
    if not _folder:
        _folder.append(tempfile.mkdtemp(prefix="dtfzmq-test-"))
    return _folder[0]


_folder: list[str] = []


def create_local_cluster(
    num_workers: int, num_ps: int, protocol: str = "zmq", worker_config: Any = None, ps_config: Any = None
) -> tuple[list[Server], list[Server]]:
    """Servers of jobs ``worker`` and ``ps`` on free ports of this machine, in this process: (workers, ps)."""
    made: dict[str, list[Server]] = {}
    spec = ClusterSpec({"worker": _addresses(num_workers), "ps": _addresses(num_ps)})
    for job, count, config in (("worker", num_workers, worker_config), ("ps", num_ps, ps_config)):
        made[job] = [Server(spec, job_name=job, task_index=i, protocol=protocol, config=config) for i in range(count)]
    return made["worker"], made["ps"]


def _addresses(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(contextlib.closing(socket.socket())) for _ in range(count)]
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [f"localhost:{each.getsockname()[1]}" for each in held]


def main(argv: list[str] | None = None) -> None:
    """Run the tests of the main module and exit."""
    unittest.main(argv=argv or sys.argv)
