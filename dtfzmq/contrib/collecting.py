"""What layers of tf.contrib do with variables and outputs: names, model variables, collections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfzmq.contrib.variables import model_variable
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.scopes import add_to_collections, get_collection
from dtfzmq.variables.partitions import PartitionedVariable
from dtfzmq.variables.scope import making

# outputs' names in collections, by tensor
_ALIASES = "__output_aliases"


def renaming(names: dict[str, str]) -> Callable[..., Any]:
    """A custom getter that makes model variables, the last part of their names replaced by `names`."""

    def getter(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        stem, _, last = name.rpartition("/")
        renamed = names.get(last, last)
        for given in ("reuse", "constraint", "validate_shape"):
            if kwargs.get(given) is None:
                kwargs.pop(given, None)
        kwargs.pop("reuse", None)
        return model_variable(f"{stem}/{renamed}" if stem else renamed, *args, custom_getter=getter, **kwargs)

    return getter


def add_variable(variable: Any, collections: Any, name: str) -> None:
    """Put a variable (each part of it) where `collections` says: a dict by name, a list, or one name."""
    chosen = collections.get(name) if isinstance(collections, dict) else collections
    if not chosen:
        return
    keys = [chosen] if isinstance(chosen, str) else list(chosen)
    for part in variable if isinstance(variable, PartitionedVariable) else [variable]:
        for key in keys:
            with making():
                if all(part is not other for other in get_collection(key)):
                    add_to_collections([key], part)


def title(scope: Any) -> str:
    """The name scope of a layer, without the slash, as its output is called."""
    name = scope if isinstance(scope, str) else scope.original_name_scope
    return name[:-1] if name.endswith("/") else name


def collect(collections: Any, scope: Any, outputs: Tensor) -> Tensor:
    """Put outputs into collections, with the layer's name as their alias."""
    if collections:
        keys = [collections] if isinstance(collections, str) else collections
        add_to_collections(keys, outputs)
        add_to_collections([_ALIASES], (outputs, title(scope)))
    return outputs


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> dict[str, Tensor]:
    """The outputs in a collection by their layers' names (else by their own)."""
    aliases = {id(tensor): name for tensor, name in get_collection(_ALIASES)}
    found = get_collection(collection)
    made = {aliases.get(id(t), t.op.name): t for t in found}
    if clear_collection and found:
        graph = found[0].graph
        graph.clear_collection(collection)
    return made
