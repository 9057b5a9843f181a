"""`get_variable` and `variable_scope`: variables made or found again by name.

A scope carries a name prefix and defaults (initializer, regularizer, custom getter, ...), and says whether names are
made, found, or either (`AUTO_REUSE`). Scopes also open the name scope of the same name, so ops made inside are named
like the variables.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph import convert
from dtfzmq.graph.graph import Graph, get_default_graph
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import get_collection, name_scope
from dtfzmq.variables.store import AUTO_REUSE, Getter, ReuseMode, VariableStore, default_variable_creator


class VariableScope:
    """Prefix and defaults in force; what `with variable_scope(...) as scope` gives. Can be entered again."""

    def __init__(
        self,
        reuse: bool | ReuseMode | None,
        name: str = "",
        initializer: Any = None,
        regularizer: Callable[[Any], Any] | None = None,
        caching_device: Any = None,
        partitioner: Callable[..., Any] | None = None,
        custom_getter: Getter | None = None,
        name_scope: str = "",
        dtype: Any = dtypes.float32,
        use_resource: bool | None = None,
        constraint: Callable[[Any], Any] | None = None,
    ) -> None:
        self._name = name
        self._name_scope = name_scope
        self._reuse = reuse
        self._initializer = initializer
        self._regularizer = regularizer
        self._caching_device = caching_device
        self._partitioner = partitioner
        self._custom_getter = custom_getter
        self._dtype = dtype
        self._use_resource = use_resource
        self._constraint = constraint

    @property
    def name(self) -> str:
        return self._name

    @property
    def original_name_scope(self) -> str:
        """Name scope in which the scope was made first, with its trailing '/'."""
        return self._name_scope

    @property
    def reuse(self) -> bool | ReuseMode | None:
        return self._reuse

    @property
    def initializer(self) -> Any:
        return self._initializer

    @property
    def regularizer(self) -> Callable[[Any], Any] | None:
        return self._regularizer

    @property
    def caching_device(self) -> Any:
        return self._caching_device

    @property
    def partitioner(self) -> Callable[..., Any] | None:
        return self._partitioner

    @property
    def custom_getter(self) -> Getter | None:
        return self._custom_getter

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def use_resource(self) -> bool | None:
        return self._use_resource

    @property
    def constraint(self) -> Callable[[Any], Any] | None:
        return self._constraint

    def reuse_variables(self) -> None:
        """From now on names in this scope must exist."""
        self._reuse = True

    def set_initializer(self, initializer: Any) -> None:
        self._initializer = initializer

    def set_dtype(self, dtype: Any) -> None:
        self._dtype = dtype

    def set_regularizer(self, regularizer: Callable[[Any], Any] | None) -> None:
        self._regularizer = regularizer

    def set_caching_device(self, caching_device: Any) -> None:
        self._caching_device = caching_device

    def set_partitioner(self, partitioner: Callable[..., Any] | None) -> None:
        self._partitioner = partitioner

    def set_custom_getter(self, custom_getter: Getter | None) -> None:
        self._custom_getter = custom_getter

    def set_use_resource(self, use_resource: bool | None) -> None:
        self._use_resource = use_resource

    def get_collection(self, name: str) -> list[Any]:
        """Items of a collection whose names begin with this scope."""
        return get_collection(name, self._name + "/" if self._name else None)

    def trainable_variables(self) -> list[Any]:
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self) -> list[Any]:
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list[Any]:
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def get_variable(
        self,
        store: VariableStore,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Callable[[Any], Any] | None = None,
        reuse: bool | ReuseMode | None = None,
        trainable: bool | None = None,
        collections: Iterable[str] | None = None,
        caching_device: Any = None,
        partitioner: Callable[..., Any] | None = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        custom_getter: Getter | None = None,
        constraint: Callable[[Any], Any] | None = None,
    ) -> Any:
        """The variable `name` of this scope; arguments that are None take the scope's defaults."""
        full_name = f"{self._name}/{name}" if self._name else name
        # names of variables depend on variable scopes alone, never on the name scope in force
        with name_scope(None):
            if dtype is not None and initializer is not None and not callable(initializer):
                found = convert.convert_to_tensor(initializer).dtype.base_dtype
                if found != dtypes.as_dtype(dtype):
                    raise ValueError(f"Initializer type '{found.name}' and explicit dtype '{dtype}' don't match.")
            return store.get_variable(
                full_name,
                shape=shape,
                dtype=self._dtype if dtype is None else dtype,
                initializer=self._initializer if initializer is None else initializer,
                regularizer=self._regularizer if regularizer is None else regularizer,
                reuse=self._reuse if reuse is None else reuse,
                trainable=trainable,
                collections=collections,
                caching_device=self._caching_device if caching_device is None else caching_device,
                partitioner=self._partitioner if partitioner is None else partitioner,
                validate_shape=validate_shape,
                use_resource=self._use_resource if use_resource is None else use_resource,
                custom_getter=self._custom_getter if custom_getter is None else custom_getter,
                constraint=self._constraint if constraint is None else constraint,
            )


_STORE_KEY = ("__variable_store",)


def _store(graph: Graph | None = None) -> VariableStore:
    owner = get_default_graph() if graph is None else graph
    found = owner.get_collection_ref(_STORE_KEY)
    if not found:
        found.append(VariableStore())
    store: VariableStore = found[0]  # of threads that came at once, the first one's for all
    if store.scopes.current is None:
        store.scopes.current = VariableScope(False)
    return store


def making(graph: Graph | None = None) -> AbstractContextManager[Any]:
    """Held while variables are looked up and made, so that threads find one another's. Re-entrant."""
    return _store(graph).lock


def get_variable_scope() -> VariableScope:
    """The scope in force in the default graph, for this thread."""
    scope: VariableScope = _store().scopes.current
    return scope


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Callable[[Any], Any] | None = None,
    trainable: bool | None = None,
    collections: Iterable[str] | None = None,
    caching_device: Any = None,
    partitioner: Callable[..., Any] | None = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Getter | None = None,
    constraint: Callable[[Any], Any] | None = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """The variable `name` of the scope in force: made, or found again if the scope reuses.

    `initializer` is a function of the shape, an Initializer instance or class, or a constant (then give no shape);
    None means the scope's, else Glorot's uniform for floats and zeros for others. Raises ValueError if the name
    exists and must not, does not exist and must, or exists with another shape or dtype.
    """
    return get_variable_scope().get_variable(
        _store(),
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=collections,
        caching_device=caching_device,
        partitioner=partitioner,
        validate_shape=validate_shape,
        use_resource=use_resource,
        custom_getter=custom_getter,
        constraint=constraint,
    )


def get_local_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Callable[[Any], Any] | None = None,
    trainable: bool | None = None,
    collections: Iterable[str] | None = None,
    **settings: Any,
) -> Any:
    """`get_variable` for a variable of this process: not trainable, in LOCAL_VARIABLES."""
    keys = [*(collections or ()), GraphKeys.LOCAL_VARIABLES]
    return get_variable(name, shape, dtype, initializer, regularizer, False, keys, **settings)


def _wrapped(getter: Getter | None, outer: Getter | None) -> Getter | None:
    """`getter` around `outer`: the inner scope's getter sees the outer scope's as the true one."""
    if getter is None or outer is None:
        return outer if getter is None else getter
    inner = getter

    def wrapped(getter: Getter, *args: Any, **kwargs: Any) -> Any:
        return inner(functools.partial(outer, getter), *args, **kwargs)

    return wrapped


_DEFAULTS = ("initializer", "regularizer", "caching_device", "partitioner", "dtype", "use_resource", "constraint")


class variable_scope:
    """Context manager: enter a new scope by name, or an old one again by its `VariableScope`.

    With `default_name` and no name, the name is made unique among the scopes opened here. Arguments that are None
    inherit from the enclosing scope (or from the scope that is entered again).
    """

    def __init__(
        self,
        name_or_scope: str | VariableScope | None,
        default_name: str | None = None,
        values: Any = None,
        initializer: Any = None,
        regularizer: Callable[[Any], Any] | None = None,
        caching_device: Any = None,
        partitioner: Callable[..., Any] | None = None,
        custom_getter: Getter | None = None,
        reuse: bool | ReuseMode | None = None,
        dtype: Any = None,
        use_resource: bool | None = None,
        constraint: Callable[[Any], Any] | None = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        if default_name is None and name_or_scope is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if name_or_scope is not None and not isinstance(name_or_scope, (str, VariableScope)):
            raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
        if reuse is False:
            reuse = None
        if not (reuse is True or reuse is None or reuse is AUTO_REUSE):
            raise ValueError("The reuse parameter must be True or False or None.")
        if reuse and name_or_scope is None:
            raise ValueError("reuse=True cannot be used without a name_or_scope")
        self._name_or_scope = name_or_scope
        self._default_name = default_name
        self._values = values
        self._reuse = reuse
        self._custom_getter = custom_getter
        self._auxiliary_name_scope = auxiliary_name_scope
        self._settings = {
            "initializer": initializer,
            "regularizer": regularizer,
            "caching_device": caching_device,
            "partitioner": partitioner,
            "dtype": dtype,
            "use_resource": use_resource,
            "constraint": constraint,
        }
        self._stacks: list[ExitStack] = []

    def __enter__(self) -> VariableScope:
        stack = ExitStack()
        try:
            stack.enter_context(_same_graph(self._values))
            scope = self._enter(stack)
        except BaseException:
            stack.close()
            raise
        self._stacks.append(stack)
        return scope

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stacks.pop().__exit__(kind, value, trace)

    def _enter(self, stack: ExitStack) -> VariableScope:
        target = self._name_or_scope
        leaf = self._default_name if target is None else target if isinstance(target, str) else _leaf(target)
        opened = ""
        if not self._auxiliary_name_scope:
            opened = get_default_graph().get_name_scope()
            opened = opened + "/" if opened else ""
        elif leaf:
            opened = stack.enter_context(name_scope(leaf))
        if isinstance(target, VariableScope):
            return stack.enter_context(self._reentered(target))
        name = _store().scopes.unique(self._default_name or "") if target is None else target
        return stack.enter_context(self._prolonged(name, opened))

    def _override(self, scope: VariableScope) -> None:
        for key, value in self._settings.items():
            if value is not None:
                setattr(scope, "_" + key, value)

    @contextmanager
    def _reentered(self, target: VariableScope) -> Iterator[VariableScope]:
        scopes = _store().scopes
        old, counts = scopes.current, dict(scopes.counts)
        kept = {key: getattr(target, key) for key in _DEFAULTS}
        scope = VariableScope(
            self._reuse or target.reuse, target.name, name_scope=target.original_name_scope, **kept
        )
        scope._custom_getter = _wrapped(self._custom_getter, target.custom_getter)
        self._override(scope)
        mark = scopes.open(target.name)
        scopes.current = scope
        try:
            yield scope
        finally:
            # entering a scope again leaves the unique names of its subscopes as they were
            scopes.close_inside(mark - 1)
            scopes.counts = counts
            scopes.current = old

    @contextmanager
    def _prolonged(self, name: str, opened: str) -> Iterator[VariableScope]:
        scopes = _store().scopes
        old = scopes.current
        full = f"{old.name}/{name}" if old.name else name
        kept = {key: getattr(old, key) for key in _DEFAULTS}
        scope = VariableScope(self._reuse or old.reuse, full, name_scope=opened, **kept)
        scope._custom_getter = _wrapped(self._custom_getter, old.custom_getter)
        self._override(scope)
        mark = scopes.open(full)
        scopes.current = scope
        try:
            yield scope
        finally:
            scopes.close_inside(mark)
            scopes.current = old


def _leaf(scope: VariableScope) -> str:
    return scope.name.rsplit("/", 1)[-1]


@contextmanager
def _same_graph(values: Any) -> Iterator[None]:
    """Inside, the default graph is that of the tensors in `values`, if there are any."""
    owners = [graph for graph in (getattr(v, "graph", None) for v in values or ()) if isinstance(graph, Graph)]
    if not owners or owners[0] is get_default_graph():
        yield
        return
    with owners[0].as_default():
        yield


@contextmanager
def variable_op_scope(
    values: Any, name_or_scope: Any, default_name: str | None = None, **settings: Any
) -> Iterator[Any]:
    """Old spelling of `variable_scope(name_or_scope, default_name, values)`."""
    with variable_scope(name_or_scope, default_name=default_name, values=values, **settings) as scope:
        yield scope


@contextmanager
def variable_creator_scope(creator: Callable[..., Any]) -> Iterator[None]:
    """Inside, this thread's `get_variable` makes variables by `creator(next_creator, **settings)`."""
    creators = _store().scopes.creators
    creators.append(creator)
    try:
        yield
    finally:
        creators.pop()


def no_regularizer(_: Any) -> None:
    """Regularizer that stops the scope's from applying."""


def make_variable(initial_value: Any, **settings: Any) -> Any:
    """A variable through the creators in force, for code that does not go by names."""
    make: Callable[..., Any] = default_variable_creator
    for creator in _store().scopes.creators:
        make = functools.partial(creator, make)
    return make(initial_value=initial_value, **settings)
