"""``tf.contrib.training``: training ops, hyperparameters, placement by load."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dtfzmq.base import absent
from dtfzmq.contrib.optimizing import clipped, scaled
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import control_dependencies, get_collection, get_collection_ref, name_scope
from dtfzmq.ops import checks, clip, constants
from dtfzmq.train.device_setter import GreedyLoadBalancingStrategy, byte_size_load_fn
from dtfzmq.train.optimizer import Optimizer
from dtfzmq.train.step import get_or_create_global_step
from dtfzmq.variables.listing import trainable_variables

_USE_GLOBAL_STEP = 0

multiply_gradients = scaled


def clip_gradient_norms(gradients_to_variables: Iterable[tuple[Any, Any]], max_norm: float) -> list[tuple[Any, Any]]:
    """Each gradient scaled down so that its own norm is at most `max_norm`."""
    out: list[tuple[Any, Any]] = []
    for grad, var in gradients_to_variables:
        if isinstance(grad, IndexedSlices):
            grad = IndexedSlices(clip.clip_by_norm(grad.values, max_norm), grad.indices, grad.dense_shape)
        elif grad is not None:
            grad = clip.clip_by_norm(grad, max_norm)
        out.append((grad, var))
    return out


def clip_gradient_norms_fn(max_norm: float) -> Callable[[Any], list[tuple[Any, Any]]]:
    """`clip_gradient_norms` as a `transform_grads_fn`."""
    return lambda pairs: clip_gradient_norms(pairs, max_norm)


def clip_gradients_by_global_norm(pairs: list[tuple[Any, Any]], max_norm: float) -> list[tuple[Any, Any]]:
    """All gradients scaled down together."""
    return clipped(pairs, max_norm)


def create_train_op(
    total_loss: Any, optimizer: Optimizer, global_step: Any = _USE_GLOBAL_STEP, update_ops: Iterable[Any] | None = None,
    variables_to_train: Any = None, transform_grads_fn: Callable[[Any], Any] | None = None,
    summarize_gradients: bool = False, gate_gradients: int = Optimizer.GATE_OP, aggregation_method: int | None = None,
    colocate_gradients_with_ops: bool = False, check_numerics: bool = True,
) -> Tensor:  # fmt: skip
    """An op that does one step and gives the loss; the `update_ops` (default: UPDATE_OPS) run before it.

    The step fails if the loss is not finite, unless `check_numerics` is False.
    """
    step = get_or_create_global_step() if global_step is _USE_GLOBAL_STEP else global_step
    loss = convert_to_tensor(total_loss)
    chosen = list(get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else update_ops)
    if chosen:
        with control_dependencies(chosen):
            barrier = constants.no_op(name="update_barrier")
        with control_dependencies([barrier]):
            loss = constants.identity(loss)
    variables = trainable_variables() if variables_to_train is None else variables_to_train
    if not variables:
        raise ValueError("No variables to optimize.")
    pairs = optimizer.compute_gradients(
        loss, variables, gate_gradients=gate_gradients, aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )  # fmt: skip
    if transform_grads_fn is not None:
        pairs = transform_grads_fn(pairs)
    update = optimizer.apply_gradients(pairs, global_step=step)
    with name_scope("train_op"):
        if check_numerics:
            loss = checks.check_numerics(loss, "LossTensor is inf or nan")
        with control_dependencies([update]):
            train_op = constants.identity(loss)
    train_ops = get_collection_ref(GraphKeys.TRAIN_OP)
    if train_op not in train_ops:
        train_ops.append(train_op)
    return train_op


class HParams:
    """Hyperparameters as attributes, each of the type of its first value.

    ``HParams(rate=0.1, sizes=[3, 4]).parse("rate=0.2,sizes=[5,6]")``.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        self._hparam_types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        if hparam_def is not None:
            raise ValueError("hparam_def is not supported: give the values as keyword arguments.")
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """A new one. Raises ValueError if the name is taken, or a list is empty."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Another value. Raises KeyError for an unknown name, ValueError for another kind of value."""
        kind, several = self._hparam_types[name]
        if isinstance(value, list) != several:
            shown = "" if several else "not "
            raise ValueError(f"Must {shown}pass a list for multi-valued parameter: {name}.")
        setattr(self, name, [_as(kind, v, name) for v in value] if several else _as(kind, value, name))

    def del_hparam(self, name: str) -> None:
        """Forget one."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default` for an unknown name."""
        return getattr(self, key) if key in self._hparam_types else default

    def values(self) -> dict[str, Any]:
        """All, by name."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def override_from_dict(self, values_dict: dict[str, Any]) -> HParams:
        """Set several."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse(self, values: str) -> HParams:
        """Set from ``name=value,name=[a,b]``. Raises ValueError for what it cannot read or does not know."""
        for name, value in _assignments(values):
            if name not in self._hparam_types:
                raise ValueError(f"Unknown hyperparameter: {name}")
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Set from a JSON object."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """All as a JSON object."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __repr__(self) -> str:
        return f"HParams({', '.join(f'{k}={v!r}' for k, v in sorted(self.values().items()))})"


def _as(kind: type, value: Any, name: str) -> Any:
    if value is None or kind is type(None) or isinstance(value, kind) and not isinstance(value, bool):
        return value
    if kind is bool:
        known = {"true": True, "1": True, "false": False, "0": False}
        if isinstance(value, bool) or str(value).lower() not in known:
            if isinstance(value, bool):
                return value
            raise ValueError(f"Could not parse hparam '{name}' of type 'bool' with value {value!r}")
        return known[str(value).lower()]
    try:
        made = kind(value)
    except (TypeError, ValueError):
        raise ValueError(f"Could not parse hparam '{name}' of type '{kind.__name__}' with value {value!r}") from None
    if kind is int and isinstance(value, float) and made != value:
        raise ValueError(f"Could not cast hparam '{name}' of type 'int' from value {value!r}")
    return made


def _assignments(text: str) -> list[tuple[str, Any]]:
    """The pairs of ``a=1,b=[2,3]``."""
    found: list[tuple[str, Any]] = []
    at = 0
    while at < len(text):
        name, equals, rest = text[at:].partition("=")
        if not equals or not name.strip():
            raise ValueError(f"Malformed hyperparameter value: {text[at:]}")
        if rest.startswith("["):
            inside, closed, after = rest[1:].partition("]")
            if not closed:
                raise ValueError(f"Malformed hyperparameter value: {text[at:]}")
            value: Any = [v.strip() for v in inside.split(",")] if inside.strip() else []
        else:
            value, _, after = rest.partition(",")
            after = "," + after if "," in rest else ""
        found.append((name.strip(), value))
        at = len(text) - len(after.lstrip().lstrip(","))
    return found


if not TYPE_CHECKING:

    def __getattr__(name: str) -> None:
        raise absent.lacking("contrib.training", name)
