"""The kinds of parameters: each is the JSON schema that callers see, and what makes a value of ours from one of theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from roundtable.rules import limits


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool. `convert` is applied after the schema held."""

    schema: dict[str, Any]
    convert: Callable[[Any], Any] = _same

    @property
    def is_text(self) -> bool:
        return bool(self.schema["type"] == "string")

    def surely_fits(self, value: object) -> bool:
        """Whether the value is plainly as the schema says. False where the schema has to be asked."""
        schema, kind = self.schema, type(value)
        if kind is str and schema["type"] == "string":
            choices = schema.get("enum")
            if choices is not None:
                return value in choices
            return bool(schema["minLength"] <= len(str(value)) <= schema["maxLength"])
        if kind is int and schema["type"] == "integer":
            return bool(schema["minimum"] <= value <= schema["maximum"])
        return kind is bool and schema["type"] == "boolean"

    def described(self, description: str) -> Parameter:
        return Parameter({**self.schema, "description": description}, self.convert)

    def defaulting(self, value: object) -> Parameter:
        return Parameter({**self.schema, "default": value}, self.convert)


def text(chars: int) -> Parameter:
    """1 to `chars` characters."""
    return Parameter({"type": "string", "minLength": 1, "maxLength": chars})


def integer(smallest: int, largest: int) -> Parameter:
    return Parameter({"type": "integer", "minimum": smallest, "maximum": largest}, int)


def task_id() -> Parameter:
    return Parameter({"type": "integer", "minimum": 1, "maximum": limits.TASK_ID_MAX}, int)


def flag() -> Parameter:
    return Parameter({"type": "boolean"})


def choice(kind: type[StrEnum], *but: StrEnum) -> Parameter:
    """One of the kind's words, but for some that are not the caller's to use."""
    return Parameter({"type": "string", "enum": [member.value for member in kind if member not in but]}, kind)


def choices(kind: type[StrEnum]) -> Parameter:
    """A set of the kind's words."""
    words = [member.value for member in kind]
    return Parameter(
        {"type": "array", "items": {"type": "string", "enum": words}, "uniqueItems": True},
        lambda given: tuple(kind(word) for word in given),
    )


def task_ids() -> Parameter:
    """A set of task ids; the empty list is a value, not an absence."""
    return Parameter(
        {
            "type": "array",
            # checked in this order: the length first, so that nobody's half a million entries are looked at
            "maxItems": limits.DEPENDENCIES_MAX,
            "items": {"type": "integer", "minimum": 1, "maximum": limits.TASK_ID_MAX},
            "uniqueItems": True,
        },
        lambda ids: tuple(int(one) for one in ids),
    )
