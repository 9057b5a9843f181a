"""`make_template`: a function whose variables are made at its first call and shared by all later ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dtfzmq.graph.keys import GraphKeys
from dtfzmq.variables.scope import VariableScope, making, variable_scope


class Template:
    """Calls `func` in a variable scope of its own: the first call makes its variables, later ones find them."""

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        create_scope_now: bool = False,
        unique_name: str | None = None,
        custom_getter: Callable[..., Any] | None = None,
    ) -> None:
        self._name = name
        self._func = func
        self._unique_name = unique_name
        self._custom_getter = custom_getter
        self._scope: VariableScope | None = None
        self._called = False
        if create_scope_now:
            with self._opened() as scope:
                self._scope = scope

    def _opened(self) -> variable_scope:
        return variable_scope(self._unique_name, default_name=self._name, custom_getter=self._custom_getter)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._called:
            with making():
                if not self._called:
                    return self._first(*args, **kwargs)
        with variable_scope(self._scope, reuse=True):
            return self._func(*args, **kwargs)

    def _first(self, *args: Any, **kwargs: Any) -> Any:
        with self._opened() if self._scope is None else variable_scope(self._scope) as scope:
            if self._scope is None:
                self._scope = scope
            result = self._func(*args, **kwargs)
        self._called = True
        return result

    @property
    def name(self) -> str:
        return self._name

    @property
    def variable_scope(self) -> VariableScope:
        """The scope of its variables. Raises ValueError before the first call, unless it was made at once."""
        if self._scope is None:
            raise ValueError(f"Template '{self._name}' has no variable scope before it is called.")
        return self._scope

    @property
    def global_variables(self) -> list[Any]:
        return self.variable_scope.global_variables() if self._called else []

    variables = global_variables

    @property
    def trainable_variables(self) -> list[Any]:
        return self.variable_scope.get_collection(GraphKeys.TRAINABLE_VARIABLES) if self._called else []

    @property
    def local_variables(self) -> list[Any]:
        return self.variable_scope.local_variables() if self._called else []


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Callable[..., Any] | None = None,
    **kwargs: Any,
) -> Template:
    """A function like `func_` with `kwargs` filled in, whose variables are shared by all its calls.

    Its scope is `unique_name_`, or `name_` made unique, at the first call (with `create_scope_now_`: now).
    """
    func = functools.partial(func_, **kwargs) if kwargs else func_
    return Template(name_, func, create_scope_now_, unique_name_, custom_getter_)
