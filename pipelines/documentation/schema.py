"""The JSON Schemas of the three YAML files, so that editors complete and check them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.config.options import option_value
from ingest.config.sources import TRANSPORTS
from ingest.formats import FORMATS
from ingest.wire.contract import Option
from pipelines.documentation.configuration import FILES
from pipelines.documentation.keys import DEFAULTS, Key

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE = {"type": "string", "pattern": "\\$\\{"}
"""`${NAME}` may stand for any value."""
_KINDS: Mapping[str, Mapping[str, Any]] = {
    "bool": {"type": "boolean"},
    "number": {"type": "integer"},
    "text": {"type": "string"},
    "folder": {"type": "string"},
    "URL": {"type": "string"},
    "list": {"type": "array", "items": {"type": "string"}},
}


def schema(what: str) -> dict[str, Any]:
    """The schema of one file, one of FILES."""
    _, model, keys = FILES[what]
    made = model.model_json_schema(by_alias=True)
    definitions = made.pop("$defs", {})
    whole = _resolved(made, definitions)
    _describe(whole, {**keys, **(DEFAULTS if what == "tables" else {})})
    if what == "source":
        _add_formats(whole)
    whole = _with_variables(whole)
    title = {"settings": "conf/ingest.yml", "source": "conf/sources/*.yml"}
    return {"$schema": _DRAFT, "title": title.get(what, "conf/tables/*.yml"), **_untitled(whole)}


def _resolved(part: Any, definitions: Mapping[str, Any]) -> Any:
    """The schema with every reference replaced by what it leads to."""
    if isinstance(part, dict):
        if "$ref" in part:
            found = definitions[part["$ref"].rpartition("/")[2]]
            rest = {name: value for name, value in part.items() if name != "$ref"}
            return {**_resolved(found, definitions), **rest}
        return {name: _resolved(value, definitions) for name, value in part.items()}
    if isinstance(part, list):
        return [_resolved(value, definitions) for value in part]
    return part


def _describe(part: dict[str, Any], keys: Mapping[str, Key], above: str = "") -> None:
    """Give each key its sentence and example, and the schema of what may be written."""
    for inner in [part, *part.get("anyOf", ()), part.get("items") or {}]:
        for name, found in inner.get("properties", {}).items():
            key = keys[f"{above}{name}"]
            if key.schema is not None:
                default = {"default": key.default or found["default"]} if "default" in found else {}
                found = inner["properties"][name] = {**key.schema, **default}
            found["description"] = key.text
            found["examples"] = [key.example]
            _describe(found, keys, f"{above}{name}.")


def _add_formats(source: dict[str, Any]) -> None:
    """The names of the formats, and which options each has; exactly one transport."""
    properties = source["properties"]
    properties["format"] = {
        **properties["format"],
        "enum": ["auto", *FORMATS],
    }
    known: dict[str, Any] = {}
    for format_ in FORMATS.values():
        for name, option in format_.options.items():
            known.setdefault(name, _option(option))
    properties["options"] |= {"properties": known, "additionalProperties": False}
    source["allOf"] = [
        {
            "if": {"properties": {"format": {"const": name}}, "required": ["format"]},
            "then": {"properties": {"options": {"propertyNames": {"enum": [*format_.options]}}}},
        }
        for name, format_ in FORMATS.items()
    ]
    source["oneOf"] = [{"required": [transport]} for transport in TRANSPORTS]


def _option(option: Option) -> dict[str, Any]:
    kind = {"enum": [*option.choices]} if option.choices else dict(_KINDS[option.kind])
    assert option.default in (None, "", ()) or option_value(option, option.default) is not None
    return {"anyOf": [kind, {"type": "null"}], "description": option.text}


def _with_variables(part: Any) -> Any:
    """The schema that takes `${NAME}` wherever not any text is taken."""
    if isinstance(part, list):
        return [_with_variables(value) for value in part]
    if not isinstance(part, dict):
        return part
    made = {
        name: value if name in ("if", "then", "examples", "default") else _with_variables(value)
        for name, value in part.items()
    }
    if "properties" in made:
        made["properties"] = {n: _with_variables(v) for n, v in part["properties"].items()}
    words = "enum" in made or "const" in made or "pattern" in made
    if words or made.get("type") in ("integer", "number", "boolean"):
        said = {name: made.pop(name) for name in ("description", "examples") if name in made}
        return {"anyOf": [made, dict(_VARIABLE)], **said}
    return made


def _untitled(part: Any, *, names: bool = False) -> Any:
    """Without the titles that pydantic makes of names; `names`: these are names of keys."""
    if isinstance(part, dict):
        return {
            name: _untitled(value, names=name == "properties")
            for name, value in part.items()
            if names or name != "title"
        }
    return [_untitled(value) for value in part] if isinstance(part, list) else part
