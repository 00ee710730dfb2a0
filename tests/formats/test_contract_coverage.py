"""What the golden folders of a format must show: every silver field, image word, op and option.

A format that cannot carry one says so in `FORMAT.impossible`, with the vendor's line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ingest.config.options import option_value
from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.events import DECODED, IMAGES
from ingest.formats import FORMATS
from ingest.wire.contract import FormatOptions, Option
from tests.support.messages import golden
from tests.support.wires import as_dicts

OF_THE_READER = {
    *("source", "topic", "partition", "offset", "row", "arrived", "error_code", "error", "value")
}
"""Columns that no format fills, and those of rejects and fragments."""
OF_SOME = {"extra"}
"""What only some formats have a use for."""
WORDS = {f"{word} image" for word in IMAGES} | {"snapshot"}
PROMISED = {column.name for column in DECODED} - OF_THE_READER - OF_SOME | WORDS
OPTIONS = [(name, key) for name in FORMATS for key in FORMATS[name].options]


def shown(name: str) -> set[str]:
    """The columns that golden rows of a format fill, and the words they use."""
    found: set[str] = set()
    for source, message in golden(name):
        for row in as_dicts(SourceDecoder(decode_spec(source)).rows(message, source.epoch)):
            if row["kind"] != "reject":
                found |= {column for column, value in row.items() if value is not None}
                found |= {f"{row[side]} image" for side in ("before_image", "after_image")}
                found.add(str(row["op"]))
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_a_field_is_filled_or_impossible(name: str) -> None:
    impossible = FORMATS[name].impossible
    # Without statements there is nothing that a dialect is of.
    implied = {"dialect"} if "ddl" in impossible else set[str]()
    assert PROMISED - shown(name) - implied <= impossible.keys()
    assert impossible.keys() <= PROMISED
    assert all(len(line) > 20 for line in impossible.values())


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_cites_its_vendor_and_says_how_it_is_told_and_ordered(name: str) -> None:
    format_ = FORMATS[name]
    assert "https://" in format_.source
    assert min(map(len, (format_.summary, format_.recognised, format_.ordered))) > 20
    assert format_.recognise is not None or format_.recognise_bytes is not None


def test_there_are_options() -> None:
    assert OPTIONS


@pytest.mark.parametrize(("name", "key"), OPTIONS)
def test_an_option_is_shown_in_a_golden_folder(name: str, key: str) -> None:
    assert any(key in source.options for source, _ in golden(name))


@pytest.mark.parametrize(("name", "key"), OPTIONS)
def test_an_option_takes_its_values_and_no_others(name: str, key: str) -> None:
    option = FORMATS[name].options[key]
    assert len(option.text) > 20
    defaults = {key: option.default for key, option in FORMATS[name].options.items()}
    for value in {option.default, *option.choices}:
        assert option_value(option, value) == value
        FORMATS[name].decoder(FormatOptions(options={**defaults, key: value}))
    for wrong in WRONG[option.kind]:
        with pytest.raises(ValueError, match=r"^expected "):
            option_value(option, wrong)


WRONG: Mapping[str, tuple[Any, ...]] = {
    "choice": ("", "no such word", 1, None, ["a"]),
    "bool": ("", "yes", 1, ["true"]),
    "number": ("", "1.5", "x", True),
    "text": (1, True, ["a"], None),
    "list": ("a", 1, [1], {"a": "b"}),
    "folder": (1, True, ["a"], None),
    "URL": (1, True, ["http://a"], None, "localhost:8081", "http://"),
}


@pytest.mark.parametrize(("name", "key"), OPTIONS)
def test_a_secret_is_not_repeated(name: str, key: str) -> None:
    option = FORMATS[name].options[key]
    assert option.secret is key.endswith(("password", "token"))
    if option.secret:
        with pytest.raises(ValueError, match="expected text, got something else, not shown"):
            option_value(option, 20_231_121)


@pytest.mark.parametrize("name", FORMATS)
def test_a_choice_names_its_default(name: str) -> None:
    for option in FORMATS[name].options.values():
        assert isinstance(option, Option)
        assert (option.default in option.choices) is (option.kind == "choice")
