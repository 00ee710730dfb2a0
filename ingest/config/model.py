"""What every part of the configuration is: a frozen model that refuses unknown keys.

Its `rules` are about several keys at once (exactly one transport, say). They see the values as
written, before types are checked, and their findings are reported together with pydantic's own, so
that a wrong type never hides another mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ModelWrapValidatorHandler,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

_SHELL_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)(?=/|\Z)")
Broken = tuple[tuple[str | int, ...], str]
"""A broken rule: the place of what is to blame inside the part, and the sentence."""


class ConfigModel(BaseModel):
    """A part of the YAML, with its `rules` over several keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        """The rules that `given`, the keys as written, breaks; values of any type must be
        expected."""
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, given: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        broken: list[InitErrorDetails] = []
        if isinstance(given, dict):
            for place, text in cls.rules(given):
                broken.append({"type": rule_error(text), "loc": place, "input": None})
        try:
            checked = check(given)
        except ValidationError as error:
            for found in error.errors(include_url=False):
                kind: str | PydanticCustomError = found["type"]
                if kind in ("value_error", "rule"):
                    kind = rule_error(found["msg"].removeprefix("Value error, "))
                broken.append(
                    {
                        "type": kind,
                        "loc": found["loc"],
                        "input": found["input"],
                        "ctx": found.get("ctx", {}),
                    }
                )
        if broken:
            raise ValidationError.from_exception_data(cls.__name__, broken)
        return checked


def rule_error(text: str) -> PydanticCustomError:
    """An error whose message is `text`, braces and all."""
    return PydanticCustomError("rule", "{text}", {"text": text})


def each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuses a name that occurs twice, letter by letter: topics and queues whose names differ in
    case are two."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"`{name}` stands twice")
        seen.add(name)
    return names


def distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuses names that differ at most in case: columns are matched without it."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise ValueError(f"`{name}` stands twice (columns are matched without case)")
        seen.add(name.lower())
    return names


def texts(value: Any) -> list[tuple[int, str]]:
    """Position and text of the texts in a list as written; nothing of any other value."""
    if not isinstance(value, list):
        return []
    return [(i, item) for i, item in enumerate(value) if isinstance(item, str)]


def _whole(value: Any) -> Any:
    if isinstance(value, bool | float):
        raise ValueError("expected a whole number")
    return value


def _within(number: int) -> int:
    """Refuses a number that no column, and no option of Spark, can hold."""
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"expected a number below 2^63, got {number}")
    return number


def path_text(text: str) -> str:
    """Refuses a text that is not a path of this machine as it stands."""
    if text.startswith("~"):
        raise ValueError(
            f"expected a path, got `{text}`: `~` is no home folder here; write the path in full, "
            f"or ./{text} for a name that begins with it"
        )
    variable = _SHELL_VARIABLE.match(text)
    if variable:
        name = variable[1]
        raise ValueError(
            f"expected a path, got `{text}`: `${name}` is not replaced; write ${{{name}}}, or "
            f"./{text} for a name that begins with it"
        )
    if "\0" in text or not text.strip():
        raise ValueError("expected a path, got a text that is none")
    if "\n" in text:
        raise ValueError("expected a path, got a text with a line break; write it in one line")
    return text


def some(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuses an empty list."""
    if not names:
        raise ValueError("expected at least one name, got none")
    return names


def one_or_more(value: Any) -> Any:
    """A list; a single text becomes a list of it."""
    return [value] if isinstance(value, str) else value


def listed(names: Iterable[str]) -> str:
    """`a, b or c`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


Text = Annotated[str, StringConstraints(min_length=1)]
PathText = Annotated[Text, AfterValidator(path_text)]
"""The path of a file or folder, or a pattern of paths, or a URI."""
Whole = Annotated[int, BeforeValidator(_whole), AfterValidator(_within)]
Names = Annotated[tuple[Text, ...], AfterValidator(distinct)]
SomeNames = Annotated[Names, AfterValidator(some)]
OneOrMore = Annotated[SomeNames, BeforeValidator(one_or_more)]
