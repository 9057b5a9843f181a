"""`arg_scope`: default arguments of functions, for the calls inside a block.

Functions that can be scoped are marked by `add_arg_scope`. Source: TF-Slim.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

Scope = dict[str, dict[str, Any]]
_ATTRIBUTE = "_key_op"


class _Stack(threading.local):
    """Per thread: the scopes in force, innermost last."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = [{}]


_stack = _Stack()
_names: dict[str, tuple[str, ...]] = {}


def _key(function: Any) -> str:
    return str(getattr(function, _ATTRIBUTE, str(function)))


def add_arg_scope(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let `arg_scope` set keyword arguments of `function`: those that a call gives itself win."""

    @functools.wraps(function)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        defaults = _stack.scopes[-1].get(_key(scoped))
        return function(*args, **({**defaults, **kwargs} if defaults else kwargs))

    key = f"{function.__module__}.{function.__qualname__}"
    setattr(scoped, _ATTRIBUTE, key)
    code = function.__code__
    _names[key] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return scoped


def has_arg_scope(function: Any) -> bool:
    """True if `function` was marked by `add_arg_scope`."""
    return _key(function) in _names


def arg_scoped_arguments(function: Any) -> tuple[str, ...]:
    """Names of the arguments that can be set. Raises ValueError if `function` is not marked."""
    if not has_arg_scope(function):
        raise ValueError(f"{function} is not decorated with @add_arg_scope")
    return _names[_key(function)]


def current_arg_scope() -> Scope:
    """The defaults in force, by function."""
    return _stack.scopes[-1]


@contextlib.contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[Scope]:
    """Inside, calls of the listed functions have `kwargs` as defaults; or enter again what an arg_scope gave.

    Raises ValueError if a scope is entered again with kwargs, or if a function is not marked by `add_arg_scope`.
    """
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError("When attempting to re-use a scope by suppling a dictionary, kwargs must be empty.")
        scope: Scope = {key: dict(value) for key, value in list_ops_or_scope.items()}
    elif isinstance(list_ops_or_scope, (list, tuple)):
        scope = {key: dict(value) for key, value in _stack.scopes[-1].items()}
        for function in list_ops_or_scope:
            if not has_arg_scope(function):
                raise ValueError(f"{_key(function)} is not decorated with @add_arg_scope")
            scope[_key(function)] = {**scope.get(_key(function), {}), **kwargs}
    else:
        raise TypeError("list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)")
    _stack.scopes.append(scope)
    try:
        yield scope
    finally:
        _stack.scopes.pop()
