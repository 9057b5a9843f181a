"""The published contract, made from the declarations: `make schemas` writes it, a test holds it against them.

    python schemas/generate.py           write every schema into this folder
    python schemas/generate.py --check   exit with 1 and name the files that are not up to date
"""

from __future__ import annotations

import json
import sys
import types
import typing
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import dtfzmq  # noqa: F401  all ops are declared once this is imported
from dtfzmq.base import dtypes
from dtfzmq.graph import opdef
from dtfzmq.wire.message import all_messages, layout_of

HERE = Path(__file__).resolve().parent
DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

# Fields whose annotation says less than is known of them.
_FIELDS: dict[str, Schema] = {"graph": {"$ref": "graph.json"}, "error": {"$ref": "error.json"}}
_SCALARS: dict[Any, Schema] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    bytes: {"$ref": "bytes.json"},
    Any: {},
    object: {},
    list: {"type": "array"},
    tuple: {"type": "array"},
    dict: {"type": "object"},
    type(None): {"type": "null"},
}


def documents() -> dict[str, Schema]:
    """File name -> schema, of everything that is published."""
    found = {"graph.json": graph(), "ops.json": ops(), "cluster.json": cluster(), "error.json": error()}
    found["tensor.json"] = tensor()
    found["bytes.json"] = binary()
    for cls in published():
        found[f"messages/{cls.__name__}.json"] = message(cls)
    return {name: {"$schema": DIALECT, "$id": identity(name), **found[name]} for name in sorted(found)}


def published() -> list[type[Any]]:
    """The messages of the package itself; tests declare some of their own."""
    return [cls for cls in all_messages() if cls.__module__.startswith("dtfzmq.")]


def identity(name: str) -> str:
    """The `$id` of a file: its name without the folder, so that references are bare names."""
    return f"https://dtfzmq.example/schemas/{name.rpartition('/')[2]}"


def text(schema: Schema) -> str:
    """A schema as it stands in its file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def message(cls: type[Any]) -> Schema:
    """The body of one message: an array of its name and its fields in order. Later versions append fields."""
    layout = layout_of(cls)
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = [{"title": name, **(_FIELDS.get(name) or of_hint(hints[name]))} for name in layout.fields]
    return {
        "title": layout.name,
        "description": " ".join((cls.__doc__ or "").split()),
        "type": "array",
        "prefixItems": [{"const": layout.name}, *fields],
        "minItems": 1 + layout.required,
    }


def of_hint(hint: Any) -> Schema:
    """The schema of what an annotation allows."""
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        tensors = "tensors" in arguments[1:]
        return {"type": "array", "items": {"$ref": "tensor.json"}} if tensors else of_hint(arguments[0])
    if origin is list or (origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis):
        return {"type": "array", "items": of_hint(arguments[0])}
    if origin is tuple:
        items = [of_hint(item) for item in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin is dict:
        return {"type": "object", "additionalProperties": of_hint(arguments[1])}
    if origin is typing.Union or origin is types.UnionType:
        return {"anyOf": [of_hint(item) for item in arguments]}
    raise TypeError(f"No schema for a field of type {hint!r}.")


def tensor() -> Schema:
    """A tensor's place in a header; its bytes are there too, or in the frame that follows, or are announced."""
    size = {"type": "integer", "minimum": 0}
    names = sorted({d.name for d in dtypes.all_types() if d.is_numpy_compatible} | {"bfloat16", "string"})
    return {
        "title": "Tensor",
        "description": "null, or element type, shape and number of bytes, of a small one the bytes themselves, and of "
        "an announced one what its transfer is known by.",
        "anyOf": [
            {"type": "null"},
            {
                "type": "array",
                "prefixItems": [
                    {"enum": names},
                    {"type": "array", "items": size},
                    {"anyOf": [size, {"$ref": "bytes.json"}]},
                ],
                "minItems": 3,
                "maxItems": 4,
            },
        ],
    }


def binary() -> Schema:
    """msgpack's bin, for which JSON has nothing."""
    return {
        "title": "Bytes",
        "description": "A msgpack bin; shown in JSON as its base64 text.",
        "type": "object",
        "properties": {"base64": {"type": "string"}},
        "required": ["base64"],
    }


def error() -> Schema:
    """How an error crosses a process border."""
    string = {"type": "string"}
    return {
        "title": "Error",
        "description": "Canonical code, message, failing node, task of origin, is it an echo, remote traceback.",
        "type": "object",
        "properties": {
            "code": {"type": "integer", "minimum": 1, "maximum": 16},
            "text": string,
            "node": string,
            "origin": string,
            "derived": {"type": "boolean"},
            "traceback": string,
        },
        "required": ["code", "text"],
    }


def cluster() -> Schema:
    """A cluster as `ClusterSpec`, TF_CONFIG and `dtfzmq serve --cluster` take it."""
    address = {"type": "string", "pattern": r"^.+:[0-9]+$"}
    return {
        "title": "Cluster",
        "description": "Job -> addresses of its tasks in order, or index -> address where the job is sparse.",
        "type": "object",
        "additionalProperties": {
            "anyOf": [
                {"type": "array", "items": address},
                {"type": "object", "propertyNames": {"pattern": "^[0-9]+$"}, "additionalProperties": address},
            ]
        },
    }


def graph() -> Schema:
    """A list of nodes, in topological order."""
    return {
        "title": "Graph",
        "description": "Nodes in topological order; sources are numbers in the list (of the whole graph, in a delta).",
        "type": "array",
        "items": {"$ref": "#/$defs/node"},
        "$defs": {
            "index": {"type": "integer", "minimum": 0},
            "dtype": {"type": "string"},
            "node": {
                "type": "array",
                "prefixItems": [
                    {"title": "name", "type": "string", "minLength": 1},
                    {"title": "op", "type": "string", "minLength": 1},
                    {
                        "title": "inputs",
                        "description": "Source and its output, source and its output, ...",
                        "type": "array",
                        "items": {"$ref": "#/$defs/index"},
                    },
                    {"title": "control", "type": "array", "items": {"$ref": "#/$defs/index"}},
                    {"title": "device", "type": "string"},
                    {"title": "attrs", "type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/value"}},
                    {"title": "dtypes", "type": "array", "items": {"$ref": "#/$defs/dtype"}},
                ],
                "minItems": 7,
                "maxItems": 7,
                "$ref": "ops.json",
            },
            "value": {
                "description": "A plain value; or a tag and what it tags: d dtype, s shape, l list, a array, "
                "g subgraph, m map.",
                "anyOf": [
                    {"type": ["integer", "number", "boolean", "string", "null"]},
                    {"$ref": "bytes.json"},
                    tagged("d", {"$ref": "#/$defs/dtype"}),
                    {"$ref": "#/$defs/shape"},
                    tagged("l", {"type": "array", "items": {"$ref": "#/$defs/value"}}),
                    tagged("a", {"$ref": "#/$defs/index"}),
                    {"$ref": "#/$defs/subgraph"},
                    tagged("m", {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2}}),
                ],
            },
            "shape": tagged("s", {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "integer"}}]}),
            "subgraph": tagged(
                "g",
                {
                    "type": "array",
                    "prefixItems": [
                        {"type": "array", "items": {"$ref": "#/$defs/node"}},
                        {"title": "inputs", "type": "array", "items": {"$ref": "#/$defs/dtype"}},
                        {"title": "outputs", "$ref": "#/$defs/index"},
                    ],
                    "minItems": 3,
                    "maxItems": 3,
                },
            ),
        },
    }


def tagged(tag: str, body: Schema) -> Schema:
    """A pair of a one-letter tag and a body."""
    return {"type": "array", "prefixItems": [{"const": tag}, body], "minItems": 2, "maxItems": 2}


def ops() -> Schema:
    """What a node of each op type looks like, by its signature."""
    known = opdef.library_ops()
    return {
        "title": "Node of a registered op",
        "allOf": [
            {"if": {"prefixItems": [True, {"const": d.name}]}, "then": {"$ref": f"#/$defs/{d.name}"}} for d in known
        ],
        "$defs": {definition.name: signature(definition) for definition in known},
    }


def signature(definition: opdef.OpDef) -> Schema:
    """The node of one op type: how many inputs and outputs, and its attributes."""
    sig = definition.signature
    inputs: Schema = {"minItems": 2 * sum(not a.list for a in sig.inputs)}
    if not any(a.list for a in sig.inputs):
        inputs["maxItems"] = inputs["minItems"]
    outputs: Schema = {"minItems": sum(not a.list for a in sig.outputs)}
    if not any(a.list for a in sig.outputs):
        outputs["maxItems"] = outputs["minItems"]
    attrs: Schema = {"properties": {a.name: attribute(a) for a in sig.attrs}}
    # The type of an output may be left to the node's own list of types, as constants do.
    required = [a.name for a in sig.attrs if a.required and a.name not in {o.var for o in sig.outputs}]
    if required:
        attrs |= {"type": "object", "required": required}
    return {
        "description": sig.text + (" (stateful)" if definition.stateful else ""),
        "prefixItems": [True, {"const": definition.name}, inputs, True, True, attrs, outputs],
    }


_KINDS: dict[str, Schema] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "str": {"anyOf": [{"type": "string"}, {"$ref": "bytes.json"}]},
    "type": tagged("d", {"type": "string"}),
    "shape": {"$ref": "graph.json#/$defs/shape"},
    "tensor": tagged("a", {"type": "integer", "minimum": 0}),
    "graph": {"$ref": "graph.json#/$defs/subgraph"},
    "any": {},
}


def attribute(attr: opdef.Attr) -> Schema:
    """One attribute, as it stands on the wire."""
    if attr.kind.startswith("list("):
        schema = tagged("l", {"type": "array", "items": _KINDS[attr.kind[5:-1]]})
    else:
        schema = dict(_KINDS[attr.kind])
    if attr.optional or (not attr.required and attr.default is None):
        schema = {"anyOf": [schema, {"type": "null"}]}
    return schema


def outdated() -> list[str]:
    """Names of files that differ from what `documents` makes, are missing, or stand here without a declaration."""
    made = documents()
    there = {path.relative_to(HERE).as_posix() for path in HERE.rglob("*.json")}
    both = there & made.keys()
    differing = {name for name in both if (HERE / name).read_text(encoding="utf-8") != text(made[name])}
    return sorted(differing | (there ^ made.keys()))


def main() -> None:
    """Write the files, or check them."""
    if sys.argv[1:] == ["--check"]:
        names = outdated()
        sys.exit(f"not up to date, run `make schemas`: {', '.join(names)}" if names else 0)
    made = documents()
    for path in HERE.rglob("*.json"):
        if path.relative_to(HERE).as_posix() not in made:
            path.unlink()
    for name, schema in made.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text(schema), encoding="utf-8")
    print(f"wrote {len(made)} schemas")


if __name__ == "__main__":
    main()
