"""From what a client sent to a command: strict, with a reason for each refusal.

The schema that callers see is the schema that is checked; nothing is coerced and nothing is dropped but nulls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema

from roundtable.rules.errors import BoardError, Code, echo, invalid
from roundtable.rules.text import TextError, normalised
from roundtable.tools.parameters import Parameter

_TYPES = {"string": "a string", "integer": "a whole number", "boolean": "true or false", "array": "a list"}


def checked(
    arguments: object, parameters: Mapping[str, Parameter], required: frozenset[str], validator: Any
) -> dict[str, Any]:
    """The arguments as the command takes them.

    null, and the empty string in an optional string, count as absent (apps with strict function calling send every
    parameter). Raises BoardError `invalid` or `too_large`.
    """
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise invalid("arguments must be an object.")
    unknown = sorted(str(name) for name in arguments if name not in parameters)
    if unknown:
        raise invalid(
            f"There is no argument {echo(unknown[0])}. Accepted: {', '.join(parameters) or 'none at all'}."
        )
    given = {
        name: _text(name, value) if isinstance(value, str) else value
        for name, value in arguments.items()
        if value is not None and not (value == "" and parameters[name].is_text and name not in required)
    }
    missing = [name for name in parameters if name in required and name not in given]
    if missing:
        raise invalid(f"{', '.join(missing)} must be given.")
    if not all(parameters[name].surely_fits(value) for name, value in given.items()):
        error = next(validator.iter_errors(given), None)
        if error is not None:
            raise _refusal(error)
    return {name: parameters[name].convert(value) for name, value in given.items()}


def _text(name: str, value: str) -> str:
    try:
        return normalised(value)
    except TextError as error:
        raise invalid(
            f"{name} holds {error}. Text may hold any Unicode character but control characters other than "
            "tab and line end, and no unpaired surrogates."
        ) from None


def _refusal(error: jsonschema.ValidationError) -> BoardError:
    """What is so and what would be accepted, from the part of the schema that did not hold."""
    name = ".".join(str(part) for part in error.absolute_path) or "arguments"
    bound: Any = error.validator_value
    value: Any = error.instance
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    match error.validator:
        case "type":
            return invalid(f"{name} must be {_TYPES.get(str(bound), bound)}.")
        case "maxLength":
            return BoardError(
                Code.TOO_LARGE, f"{name} has {len(value)} characters; at most {bound} are accepted."
            )
        case "minLength":
            return invalid(f"{name} must not be empty.")
        case "maxItems":
            return BoardError(
                Code.TOO_LARGE, f"{name} has {len(value)} entries; at most {bound} are accepted."
            )
        case "uniqueItems":
            return invalid(f"{name} must not name anything twice.")
        case "minimum" | "maximum":
            return invalid(f"{name} must be from {schema.get('minimum')} to {schema.get('maximum')}.")
        case "enum" if isinstance(bound, list):
            return invalid(f"{name} must be one of: {', '.join(bound)}.")
        case _:
            return invalid(f"{name} is not as the tool's schema says.")


def mentioned_task_id(arguments: object) -> int | None:
    """The task that refused arguments speak of, if they do, for the audit."""
    value = arguments.get("task_id") if isinstance(arguments, Mapping) else None
    return value if type(value) is int and 0 < value < 2**63 else None


def mentioned_claim_id(arguments: object) -> str | None:
    """The claim that refused arguments speak of, if they do; for what is no claim_id at all, one that nobody has."""
    value = arguments.get("claim_id") if isinstance(arguments, Mapping) else None
    return None if value in (None, "") else value if isinstance(value, str) else "(malformed)"
