"""Captured messages held against the published schemas."""

from __future__ import annotations

import base64
from typing import Any

import jsonschema
import referencing


class Checker:
    """Validates bodies of messages, as `wire.codec.body` makes them, with jsonschema."""

    def __init__(self, documents: dict[str, dict[str, Any]]) -> None:
        self._documents = documents
        resources = [(schema["$id"], referencing.Resource.from_contents(schema)) for schema in documents.values()]
        registry: Any = referencing.Registry().with_resources(resources)
        self._validators = {
            schema["title"]: jsonschema.Draft202012Validator(schema, registry=registry)
            for name, schema in documents.items()
            if name.startswith("messages/")
        }

    def check_schemas(self) -> None:
        """Raise if one of the documents is no valid JSON Schema."""
        for schema in self._documents.values():
            jsonschema.Draft202012Validator.check_schema(schema)

    def problem(self, body: list[Any]) -> str:
        """What is wrong with a body, and where; "" if nothing is."""
        error = jsonschema.exceptions.best_match(self._validators[body[0]].iter_errors(json_view(body)))
        if error is None:
            return ""
        place: Any = json_view(body)
        for step in list(error.absolute_path)[:-1]:
            place = place[step]
        return f"{body[0]}{error.json_path[1:]}: {error.message:.200} in {place!r:.200}"


def json_view(value: Any) -> Any:
    """What msgpack carries, as JSON: tuples are arrays, keys are text, bytes an object with their base64."""
    if isinstance(value, (list, tuple)):
        return [json_view(item) for item in value]
    if isinstance(value, dict):
        return {str(key): json_view(item) for key, item in value.items()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    return value
