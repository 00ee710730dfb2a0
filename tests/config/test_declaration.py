"""What a source declares of its values, compared with what silver was decoded by."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.config.declaration import Declaration, changed_columns, changed_settings
from ingest.config.sources import Source

FILES = {"files": {"path": "landing/*.jsonl"}}
ORDERS = ("shop", None, "orders")


def declared(**given: Any) -> Declaration:
    return Declaration.of(Source.model_validate({"name": "s", **FILES, **given}))


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        ({}, {}, []),
        ({}, {"time_zone": "UTC"}, ["time_zone UTC (was by default)"]),
        (
            {"format": "canal", "options": {"blob_encoding": "auto"}},
            {"format": "canal"},
            [],
        ),
        (
            {"format": "canal"},
            {"format": "canal", "options": {"blob_encoding": "base64"}},
            ["option blob_encoding base64 (was by default)"],
        ),
        # Where schemas are fetched from is nothing that a value depends on, and a secret is kept
        # nowhere.
        (
            {"format": "debezium_avro", "options": {"registry_password": "one"}},
            {
                "format": "debezium_avro",
                "options": {"registry_password": "two", "schema_registry": "http://other"},
            },
            [],
        ),
        ({"format": "auto"}, {"format": "canal"}, []),
        ({"format": "canal"}, {"format": "canal", "order": "arrival"}, []),
        (
            {"format": "canal"},
            {"format": "canal", "order": "source"},
            ["order source (was by default)"],
        ),
        (
            {"format": "maxwell", "order": "source"},
            {"format": "maxwell", "order": "source", "options": {"order_key": "transaction"}},
            ["option order_key transaction (was by default)"],
        ),
        ({}, {"statements": "one_partition"}, ["statements one_partition (was auto)"]),
        ({"epoch": 0}, {"epoch": 1, "keys": {"shop.orders": ["id"]}}, []),
    ],
)
def test_settings(before: dict[str, Any], now: dict[str, Any], changed: list[str]) -> None:
    was, is_ = declared(**before), declared(**now)
    assert changed_settings(was, is_) == changed
    assert (was == is_) is not bool(changed)


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        ({}, {"shop.orders": {"due": "date"}}, ["due"]),
        ({"shop.orders": {"due": "date"}}, {}, ["due"]),
        ({"orders": {"Due": "DATE"}}, {"shop.orders": {"due": "date"}}, []),
        ({"orders": {"n": "decimal(10, 2)"}}, {"orders": {"n": "decimal(10,3)"}}, ["n"]),
        ({}, {"shop.items": {"due": "date"}}, []),
    ],
)
def test_columns(before: dict[str, Any], now: dict[str, Any], changed: list[str]) -> None:
    assert changed_columns(declared(columns=before), declared(columns=now), ORDERS) == changed


def test_by_what_arrival_places_messages() -> None:
    kafka = {"kafka": {"bootstrap_servers": "a:1", "topics": ["t"]}, "files": None}
    captured = {"files": {"path": "landing/*.jsonl", "framing": "kcat"}}
    found = [declared(**given).arrival for given in ({}, captured, kafka)]
    assert found == ["files", "times", "times"]
    # What was kept by an earlier version does not say it.
    assert Declaration.from_json(b"{}").arrival is None


def test_it_is_kept_as_it_is() -> None:
    whole = declared(
        format="debezium",
        time_zone="Europe/Berlin",
        options={"decimal_handling": "string", "registry_password": "hidden"},
        columns={"shop.orders": {"due": "date"}},
    )
    kept = whole.to_json()
    assert Declaration.from_json(kept) == whole
    assert b"hidden" not in kept
