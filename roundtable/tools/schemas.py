"""Output schemas, made from the classes of the replies.

Some SDKs check an error against the output schema too and would lose its reason, so each schema admits the error
object: `type: object`, nothing required at the top, and `anyOf` of a success or an error.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

WARNING_FIELD = "untrusted_content_warning"

_ERROR: dict[str, Any] = {
    "type": "object",
    "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
    "required": ["code", "message"],
}


def output_schema(reply: Any) -> dict[str, Any]:
    """The schema of every answer of a tool whose replies are of this class (or one of a union of classes)."""
    made = _bare(TypeAdapter(reply).json_schema())
    definitions = made.pop("$defs", {})
    successes = [definitions.pop(_target(one)) for one in made["anyOf"]] if "anyOf" in made else [made]
    properties: dict[str, Any] = {}
    for success in successes:
        for name, schema in success["properties"].items():
            known = properties.get(name)
            properties[name] = schema if known in (None, schema) else {"anyOf": [known, schema]}
    schema = {
        "type": "object",
        "properties": {**properties, WARNING_FIELD: {"type": "string"}, "error": _ERROR},
        "anyOf": [*({"required": success["required"]} for success in successes), {"required": ["error"]}],
    }
    return {**schema, "$defs": definitions} if definitions else schema


def _target(reference: dict[str, str]) -> str:
    return reference["$ref"].rpartition("/")[2]


def _bare(schema: Any) -> Any:
    """Without the titles and the class docstrings, which tell a model nothing."""
    if isinstance(schema, dict):
        return {
            key: {name: _bare(part) for name, part in value.items()}
            if key in {"properties", "$defs"}
            else _bare(value)
            for key, value in schema.items()
            if key not in {"title", "description"}
        }
    if isinstance(schema, list):
        return [_bare(part) for part in schema]
    return schema
