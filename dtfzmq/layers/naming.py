"""What layers accept by name: activations, initializers, data formats, sizes of windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.static import constant_value
from dtfzmq.ops import control, elementwise, nn
from dtfzmq.variables import initializers

_ACTIVATIONS: dict[str, Callable[..., Tensor] | None] = {
    "elu": nn.elu, "exponential": elementwise.exp, "linear": None, "relu": nn.relu, "relu6": nn.relu6,
    "selu": nn.selu, "sigmoid": elementwise.sigmoid, "softmax": nn.softmax, "softplus": nn.softplus,
    "softsign": nn.softsign, "swish": nn.swish, "tanh": elementwise.tanh,
}  # fmt: skip
_INITIALIZERS: dict[str, type[initializers.Initializer]] = {
    "constant": initializers.Constant, "glorot_normal": initializers.GlorotNormal,
    "glorot_uniform": initializers.GlorotUniform, "identity": initializers.Identity, "ones": initializers.Ones,
    "orthogonal": initializers.Orthogonal, "random_normal": initializers.RandomNormal,
    "random_uniform": initializers.RandomUniform, "truncated_normal": initializers.TruncatedNormal,
    "zeros": initializers.Zeros,
}  # fmt: skip


def activation(value: Any) -> Callable[..., Tensor] | None:
    """The function that `value` (one, its name, or None for none) means. Raises ValueError for an unknown name."""
    if value is None or callable(value):
        return value
    if isinstance(value, str) and value in _ACTIVATIONS:
        return _ACTIVATIONS[value]
    raise ValueError(f"Unknown activation {value!r}: give a function or one of {', '.join(sorted(_ACTIVATIONS))}.")


def initializer(value: Any) -> Any:
    """The initializer that a name means; anything else is returned as it is. Raises ValueError for an unknown name."""
    if not isinstance(value, str):
        return value
    if value not in _INITIALIZERS:
        raise ValueError(f"Unknown initializer {value!r}: give one or one of {', '.join(sorted(_INITIALIZERS))}.")
    return _INITIALIZERS[value]()


def channels(data_format: str) -> bool:
    """Whether channels stand second. Raises ValueError unless `data_format` is channels_first or channels_last."""
    found = str(data_format).lower()
    if found not in ("channels_first", "channels_last"):
        raise ValueError(
            'The `data_format` argument must be one of "channels_first", "channels_last". Received: ' + str(data_format)
        )
    return found == "channels_first"


def layout(rank: int, first: bool) -> str:
    """The data format of ops over `rank` axes of space: NWC, NCHW, NDHWC..."""
    space = "DHW"[3 - rank :]
    return f"NC{space}" if first else f"N{space}C"


def sizes(value: Any, n: int, name: str) -> tuple[int, ...]:
    """A number, or `n` numbers, as `n` of them. Raises ValueError for anything else."""
    if isinstance(value, (int, np.integer)):
        return (int(value),) * n
    try:
        found = tuple(int(v) for v in value)
    except (TypeError, ValueError):
        found = ()
    if len(found) != n:
        raise ValueError(f"The `{name}` argument must be a tuple of {n} integers. Received: {value}")
    return found


def padding(value: Any, causal: bool = False) -> str:
    """ "valid", "same" or (if it may be) "causal". Raises ValueError for others."""
    found = str(value).lower()
    allowed = {"valid", "same", "causal"} if causal else {"valid", "same"}
    if found not in allowed:
        raise ValueError(
            f'The `padding` argument must be one of {", ".join(sorted(repr(a) for a in allowed))}. Received: {value}'
        )
    return found


def dimension(value: Any) -> int | None:
    """The number that a static dimension is, or None."""
    found = getattr(value, "value", value)
    return None if found is None else int(found)


def known(condition: Any) -> bool | None:
    """The Python truth of a condition that is a bool, 0, 1 or a constant tensor; None for other tensors."""
    if isinstance(condition, (bool, np.bool_)):
        return bool(condition)
    if isinstance(condition, (int, np.integer)) and condition in (0, 1):
        return bool(condition)
    if isinstance(condition, Tensor) or hasattr(condition, "_ref"):
        value = constant_value(condition) if isinstance(condition, Tensor) else None
        return None if value is None else bool(value)
    raise TypeError(f"The condition must be a bool, 0, 1 or a tensor, not {condition!r}.")


def choose(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any], name: str | None = None) -> Any:
    """`cond`, but only the branch that is taken is built if that is known already."""
    value = known(condition)
    if value is None:
        return control.cond(condition, then, otherwise, name=name)
    return then() if value else otherwise()
