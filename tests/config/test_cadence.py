"""`merge_every`: what may be written, what it comes to, and what it does not go together with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ingest.config.cadence import Cadence
from ingest.config.load import load
from ingest.config.tables import Tables
from ingest.errors import ConfigError
from pipelines.documentation.schema import schema


@pytest.mark.parametrize(
    ("text", "cadence"),
    [
        ("1 second", Cadence(seconds=1)),
        ("5 minutes", Cadence(seconds=300)),
        ("36 hours", Cadence(seconds=129_600)),
        ("2 days", Cadence(seconds=172_800)),
        ("1 event", Cadence(events=1)),
        ("10000 events", Cadence(events=10_000)),
        ("5 minutes | 10000 events", Cadence(seconds=300, events=10_000)),
        ("10000 events|5 minutes", Cadence(seconds=300, events=10_000)),
        (None, None),
    ],
)
def test_what_is_written(text: str | None, cadence: Cadence | None) -> None:
    tables = Tables.model_validate({"source": "shop", "defaults": {"merge_every": text}})
    assert tables.defaults.merge_every == cadence
    if cadence is not None and text is not None:
        again = Tables.model_validate({"source": "s", "defaults": {"merge_every": str(cadence)}})
        assert again.defaults.merge_every == cadence
        assert re.search(pattern(), text) is not None


WRONG = (
    *("often", "", "0 minutes", "5", "5 min", "1.5 hours", "-1 events", "10,000 events"),
    *("5 minutes | 6 minutes", "3 events | 4 events", "5 minutes |", "5 minutes and 3 events"),
    *("5 minutes | 3 events | 1 day", "1 month"),
)


@pytest.mark.parametrize("text", WRONG)
def test_what_it_cannot_be(tmp_path: Path, text: str) -> None:
    [mistake] = mistakes(tmp_path, f"tables: [{{from: '*', merge_every: '{text}'}}]\n")
    assert mistake == (
        "conf/tables/shop.yml:2: `tables[0].merge_every`: expected a time like `5 minutes`, a "
        f"number like `10000 events`, or both as `5 minutes | 10000 events`, got `{text}`"
    )
    # `a | b | c` and what names one reason twice are told apart by loading alone.
    if "|" not in text:
        assert re.search(pattern(), text) is None


@pytest.mark.parametrize("value", [5, 1.5, True, ["5 minutes"], {"seconds": 5}])
def test_it_is_a_text(tmp_path: Path, value: Any) -> None:
    [mistake] = mistakes(tmp_path, f"defaults: {{merge_every: {value}}}\n")
    assert "expected a time like `5 minutes`" in mistake


def test_tables_that_advance_together_wait_for_none(tmp_path: Path) -> None:
    """In the defaults, and in each entry that says so itself; null says that it does not wait."""
    found = mistakes(
        tmp_path,
        "publish: transaction\n"
        "defaults:\n"
        "  merge_every: 5 minutes\n"
        "tables:\n"
        "  - {from: shop.a, merge_every: 3 events}\n"
        "  - {from: shop.b, merge_every: null}\n",
    )
    why = "it lets a table wait, but `publish: transaction` lets all advance together"
    assert found == [
        f"conf/tables/shop.yml:4: `defaults.merge_every`: {why}",
        f"conf/tables/shop.yml:6: `tables[0].merge_every`: {why}",
    ]


def test_an_entry_takes_it_from_the_defaults_or_says_otherwise(tmp_path: Path) -> None:
    conf = written(
        tmp_path,
        "defaults: {merge_every: 5 minutes}\n"
        "tables: [{from: '*'}, {from: shop.a, merge_every: 3 events}, "
        "{from: shop.b, merge_every: null}]\n",
    )
    config = load(conf, environ={})
    found = {}
    for table in ("a", "b", "c"):
        route = config.route("shop", db="shop", schema=None, table=table)
        assert route is not None
        found[table] = route.merge_every
    assert found == {"a": Cadence(events=3), "b": None, "c": Cadence(seconds=300)}


def pattern() -> str:
    """What an editor accepts."""
    [text, _] = schema("tables")["properties"]["defaults"]["properties"]["merge_every"]["anyOf"]
    return str(text["anyOf"][0]["pattern"])


def written(folder: Path, tables: str) -> Path:
    for name, text in (
        ("sources", "name: shop\nformat: canal\nfiles: {path: 'in/*'}\n"),
        ("tables", f"source: shop\n{tables}"),
    ):
        path = folder / "conf" / name / "shop.yml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return folder / "conf"


def mistakes(folder: Path, tables: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(written(folder, tables), environ={})
    return [str(mistake).replace(f"{folder}/", "") for mistake in caught.value.mistakes]
