"""Which mode a target has, by what the YAML says and whether there is a key."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from ingest.config.modes import KEEPING, Mode, TargetContract, declared_keeping, label, mode_of
from ingest.config.routes import Route, route
from ingest.config.settings import DdlPolicy
from ingest.config.tables import ScdType, Tables


def declared(scd_type: ScdType) -> Route:
    found = route(Tables(source="s"), "shop", None, table="crate", ddl=DdlPolicy())
    assert found is not None
    return replace(found, stored_as_scd_type=scd_type)


@pytest.mark.parametrize(
    ("scd_type", "keyed", "keyless"),
    [(1, "scd1", "append"), (2, "scd2", None), ("append", "append", "append")],
)
def test_a_table_without_a_key_can_only_be_appended(
    scd_type: ScdType, keyed: Mode, keyless: Mode | None
) -> None:
    assert mode_of(declared(scd_type), ("id",)) == keyed
    assert mode_of(declared(scd_type), ()) == keyless
    assert declared_keeping(declared(scd_type)) == KEEPING[keyed]


def test_every_mode_is_declared_somehow() -> None:
    modes = [mode_of(declared(scd_type), ("id",)) for scd_type in get_args(ScdType)]
    assert tuple(modes) == get_args(Mode) == tuple(KEEPING)


def test_a_target_is_told_by_the_word_of_the_yaml() -> None:
    told = [label(TargetContract(mode, ("id",), ())) for mode in get_args(Mode)]
    assert told == list(map(str, get_args(ScdType)))
    assert label(TargetContract("append", (), ())) == "append (no key)"
    assert label(None) is None
