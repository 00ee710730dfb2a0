"""Pydantic's findings as sentences: what was expected, what came, the nearest valid word."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from ingest.addresses import LOGIN, after_login
from ingest.config.model import listed
from ingest.config.yaml import Place, dotted, names_a_secret

_KEYS_WITH_VALUES = "keys with values"
_EXPECTED = {
    "string_type": "text",
    "string_unicode": "text in UTF-8",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "tuple_type": "a list",
    "dict_type": _KEYS_WITH_VALUES,
    "mapping_type": _KEYS_WITH_VALUES,
    "model_type": _KEYS_WITH_VALUES,
    "model_attributes_type": _KEYS_WITH_VALUES,
}
_OF_MODELS = ("model_type", "model_attributes_type")
_WORD = re.compile(r"'([^']*)'|(\d+)")


def explain(error: ValidationError, model: type[BaseModel]) -> Iterator[tuple[Place, str]]:
    """The place and the sentence of each finding about `model`, which repeats no login of an
    address, wherever that was written."""
    for place, text in _sentences(error, model):
        yield place, LOGIN.sub("[hidden]", text) if "@" in text else text


def _sentences(error: ValidationError, model: type[BaseModel]) -> Iterator[tuple[Place, str]]:
    for found in error.errors(include_url=False):
        kind, place, given = found["type"], found["loc"], found["input"]
        got = "something else, not shown here" if names_a_secret(place) else shown(given)
        if place and isinstance(given, str) and _EXPECTED.get(kind) == _KEYS_WITH_VALUES:
            # Keys and values written as one text; one of them may be a password.
            got = "text"
        context = found.get("ctx", {})
        what = dotted(place)
        if kind == "extra_forbidden":
            yield place, unknown_key(what, place[-1], _keys(model, place[:-1]))
        elif kind == "missing":
            yield place, f"`{what}` is missing"
        elif kind == "literal_error":
            words = [text or number for text, number in _WORD.findall(context["expected"])]
            if place[-1] == "[key]":
                yield place[:-1], unknown_key(dotted(place[:-1]), given, words)
            else:
                yield place, unknown_word(what, given, words)
        elif kind in _EXPECTED:
            hint = (
                f"; write {_in_a_list(given)}"
                if kind == "tuple_type" and got == f"`{given}`"
                else ""
            )
            if kind == "string_type" and isinstance(given, bool | int | float):
                hint = "; put it in quotes"
            if kind == "string_type" and isinstance(given, dict) and not any(given.values()):
                hint = "; in YAML { } holds keys and values: put it in quotes"
            if kind in _OF_MODELS and place:
                hint = f"; its keys are {listed(_keys(model, place))}"
            yield place, f"`{what}`: expected {_EXPECTED[kind]}, got {got}{hint}"
        elif kind == "string_too_short":
            yield place, f"`{what}`: expected text, got none"
        elif kind == "string_too_long":
            most = context["max_length"]
            yield place, f"`{what}`: expected at most {most} characters, got {len(given)}"
        elif kind == "string_pattern_mismatch":
            pattern = context["pattern"]
            yield place, f"`{what}`: expected a name like {pattern}, got {got}"
        elif kind == "greater_than_equal":
            yield place, f"`{what}`: expected {context['ge']} or more, got {got}"
        else:
            text = found["msg"].removeprefix("Value error, ")
            at = place[:-1] if place and place[-1] == "[key]" else place
            yield at, f"`{dotted(at)}`: {text}" if at else text


def _in_a_list(text: str) -> str:
    """How YAML writes a list of one text, in quotes where it has to be."""
    plain = re.fullmatch(r"[\w., -]+", text) is not None
    return f"[{text}]" if plain else "['" + text.replace("'", "''") + "']"


def unknown_key(what: str, key: Any, words: Iterable[str]) -> str:
    """The sentence on a key that is none of `words`."""
    words = list(words)
    return f"`{what}` is not a known key; expected {listed(words)}{nearest(key, words)}"


def unknown_word(what: str, given: Any, words: Iterable[str]) -> str:
    """The sentence on a value that is none of `words`."""
    words = list(words)
    return f"`{what}`: expected {listed(words)}, got {shown(given)}{nearest(given, words)}"


def nearest(given: Any, words: Iterable[str]) -> str:
    """`; nearest: W`, or nothing if no word is near."""
    by_case = {word.lower(): word for word in words}
    near = difflib.get_close_matches(str(given).lower(), by_case, n=1, cutoff=0.5)
    return f"; nearest: {by_case[near[0]]}" if near else ""


def shown(given: Any) -> str:
    """A value as a mistake quotes it: scalars completely, except for the login in an address;
    larger values by their kind."""
    if given is None:
        return "null"
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, str):
        return f"`{after_login(given) if LOGIN.search(given) else given}`"
    if isinstance(given, list | tuple):
        return "a list"
    return _KEYS_WITH_VALUES if isinstance(given, dict) else str(given)


def _keys(model: type[BaseModel], place: Place) -> list[str]:
    """The keys of the part of `model` that `place` leads to."""
    for key in place:
        if isinstance(key, str):
            field = model.model_fields.get(key)
            model = next(models_in(field.annotation), model) if field is not None else model
    return [field.alias or name for name, field in model.model_fields.items()]


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a key's value may be, or the values in its list or mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from models_in(inner)
