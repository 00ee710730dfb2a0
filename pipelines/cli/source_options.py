"""What the command line says of a source, validated as its YAML is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ingest.errors import ConfigError, Mistake

if TYPE_CHECKING:
    from ingest.config.sources import Source

_PLACE = "command line"


def given_source(
    base: Source | None, given: Mapping[str, Any], *, format_: str | None, framing: str
) -> Source:
    """The source that the command line declares: `base`, with what is given in its place.

    Of `given`, `keys` and `columns` are texts of YAML, `options` and `limits` NAME=VALUE; they add
    to those of `base`. Raises ConfigError with every mistake.
    """
    from ingest.config.checks import checked_source
    from ingest.config.sources import TRANSPORTS
    from ingest.formats import FORMATS

    mistakes: list[Mistake] = []
    # How messages come in is not changed here, and a model's dump is not the YAML it came from.
    held = {} if base is None else {name: getattr(base, name) for name in TRANSPORTS}
    known = {} if base is None else base.model_dump(exclude_unset=True, exclude={*TRANSPORTS})
    said = {key: value for key, value in given.items() if value not in (None, ())}
    for key in ("keys", "columns"):
        for text in said.pop(key, ()):
            known[key] = {**known.get(key, {}), **_tables(f"--{key}", text, mistakes)}
    for key, example in (("options", "tombstone=delete"), ("limits", "nesting=100")):
        for text in said.pop(key, ()):
            known[key] = {
                **known.get(key, {}),
                **_named(f"--{key[:-1]}", text, mistakes, example=example),
            }
    if base is None:
        known["name"] = "inspect"
    elif base.files is not None:
        framing = base.files.framing
    known["files"] = {"path": "-", "framing": framing}
    declared = {**known, **said, **({"format": format_} if format_ is not None else {})}
    source, wrong = checked_source(declared, _PLACE, FORMATS)
    if mistakes or source is None:
        raise ConfigError([*mistakes, *wrong])
    return source.model_copy(update=held)


def table_names(texts: Sequence[str]) -> list[str]:
    """The tables that texts of `--keys` name, which `given_source` has found right."""
    return [name for text in texts for name in _tables("--keys", text, [])]


def _tables(option: str, text: str, mistakes: list[Mistake]) -> Mapping[str, Any]:
    """`shop.items: [order_id, line]`, as the YAML has it."""
    before = len(mistakes)
    found = _yaml(text, mistakes)
    if len(mistakes) > before:
        return {}
    if not isinstance(found, dict):
        example = "[id]" if option == "--keys" else "{price: 'decimal(12,2)'}"
        wanted = f"`{option}`: expected a table and what it has, like shop.items: {example}"
        mistakes.append(Mistake(_PLACE, None, f"{wanted}; got `{text}`"))
        return {}
    return found


def _named(option: str, text: str, mistakes: list[Mistake], *, example: str) -> Mapping[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        wanted = f"`{option}`: expected NAME=VALUE, like {example}"
        mistakes.append(Mistake(_PLACE, None, f"{wanted}; got `{text}`"))
        return {}
    return {name.strip(): _yaml(value, mistakes)}


def _yaml(text: str, mistakes: list[Mistake]) -> Any:
    from ingest.config.yaml import parse

    document, found = parse(_PLACE, text, environ={})
    mistakes += [mistake._replace(line=None) for mistake in found]
    return document.value


def is_given(given: Mapping[str, Any]) -> bool:
    """Whether the command line says anything."""
    return any(value is not None and not _empty(value) for value in given.values())


def _empty(value: Any) -> bool:
    return isinstance(value, Sequence) and not value
