"""Which target a source table goes to, and who meets whom there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.config import checks, routes
from ingest.config.checks import shadowed_patterns
from ingest.config.routes import Route, collisions, route
from ingest.config.settings import DdlPolicy
from ingest.config.tables import Tables
from ingest.config.yaml import Document
from ingest.names import (
    SourceTable,
    check_target,
    covers,
    matches,
    parse_pattern,
    quoted,
    target_name,
)

Names = tuple[str | None, str | None, str]


def tables(*entries: Any, source: str = "farm", **rest: Any) -> Tables:
    return Tables.model_validate({"source": source, "tables": list(entries), **rest})


def way(declared: Tables, *names: str | None) -> Route | None:
    """The route of `db.schema.table` under the default policy."""
    db, schema, table = names
    assert table is not None
    return route(declared, db, schema, table=table, ddl=DdlPolicy())


def target(declared: Tables, *names: str | None) -> str | None:
    found = way(declared, *names)
    return found.target if found else None


@pytest.mark.parametrize(
    ("pattern", "names", "expected"),
    [
        ("*", ("barn", None, "cows"), True),
        ("*", (None, None, "cows"), True),
        ("*", ("barn", "north", "a.b"), True),
        ("cows", ("barn", "north", "cows"), True),
        ("cows", ("cows", None, "barn"), False),
        ("co?s", ("barn", None, "cows"), True),
        ("barn.cows", ("barn", None, "cows"), True),
        ("barn.cows", ("barn", "north", "cows"), True),
        ("barn.cows", ("shed", None, "cows"), False),
        ("barn.cows", (None, None, "cows"), False),
        ("*.cows", (None, None, "cows"), True),
        ("barn.*", ("barn", None, "hens"), True),
        ("barn.*", ("barn2", None, "hens"), False),
        ("barn_0?.cows_??", ("barn_07", None, "cows_12"), True),
        ("barn_0?.cows_??", ("barn_0", None, "cows_12"), False),
        ("barn_0?.cows_??", ("barn_071", None, "cows_12"), False),
        ("barn.north.cows", ("barn", "north", "cows"), True),
        ("barn.north.cows", ("barn", "south", "cows"), False),
        ("barn.north.cows", ("barn", None, "cows"), False),
        ("barn.*.cows", ("barn", "south", "cows"), True),
        ("Barn.cows", ("barn", None, "cows"), False),
        ("barn.cow+", ("barn", None, "coww"), False),
        ("barn.`a.b`", ("barn", None, "a.b"), True),
        ("barn.`a*`", ("barn", None, "a*"), True),
        ("barn.`a*`", ("barn", None, "abc"), False),
        ("`a``b`.c", ("a`b", None, "c"), True),
        ("barn.two words", ("barn", None, "two words"), True),
        ("仓库.*", ("仓库", None, "订单"), True),
    ],
)
def test_a_pattern_matches(pattern: str, names: Names, expected: bool) -> None:
    db, schema, table = names
    assert matches(pattern, db=db, schema=schema, table=table) is expected


def test_a_star_does_not_cross_from_one_name_to_the_next() -> None:
    assert not matches("ba*ws", db="barn", schema=None, table="cows")
    assert not matches("b*.north.cows", db="barn", schema="old.north", table="cows")


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a.b.c.d", "a.`b", "a`b", "``.a"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected table, db"):
        parse_pattern(text)


@given(st.tuples(*[st.text("ab.*?`_ é", min_size=1, max_size=6)] * 3))
def test_a_quoted_name_matches_itself_alone(names: tuple[str, str, str]) -> None:
    db, schema, table = names
    pattern = ".".join(quoted(name) for name in names)
    assert matches(pattern, db=db, schema=schema, table=table)
    assert not matches(pattern, db=db, schema=schema, table=table + "x")


def test_the_bottom_most_entry_wins_whole() -> None:
    declared = tables(
        {"from": "barn.*", "keys": ["id"], "deletes": "soft"},
        {"from": "barn.cows", "truncates": "ignore"},
        {"from": "shed.*", "target": "shed_{table}"},
    )
    assert way(declared, "barn", None, "cows") == Route(
        source="farm",
        target="barn_cows",
        merges=("farm", 1, "barn", None, "cows"),
        keys=None,
        sequence_by=None,
        stored_as_scd_type=1,
        deletes="hard",
        truncates="ignore",
        columns={},
        exclude=(),
        shard_column=None,
        ddl=DdlPolicy(),
    )
    hens = way(declared, "barn", None, "hens")
    assert hens is not None
    assert (hens.keys, hens.deletes) == (("id",), "soft")
    assert target(declared, "shed", None, "cows") == "shed_cows"
    assert way(declared, "yard", None, "cows") is None


def test_entries_inherit_from_defaults_and_add_to_their_mappings() -> None:
    declared = tables(
        {"from": "*"},
        {
            "from": "barn.cows",
            "keys": None,
            "columns": {"Weight": "decimal(9,3)", "born": "date"},
            "ddl": {"destructive": "ignore"},
            "stored_as_scd_type": 2,
        },
        defaults={
            "target": "all_{table}",
            "keys": ["id"],
            "sequence_by": "changed_at",
            "columns": {"weight": "int", "name": "string"},
            "exclude": ["secret"],
            "ddl": {"additive": "review", "destructive": "apply"},
            "shard_column": "shard",
        },
    )
    policy = DdlPolicy(additive="ignore", widening="ignore")
    assert route(declared, "barn", None, table="cows", ddl=policy) == Route(
        source="farm",
        target="all_cows",
        merges=("farm", 1, "cows"),
        keys=None,
        sequence_by=("changed_at",),
        stored_as_scd_type=2,
        deletes="hard",
        truncates="apply",
        columns={"name": "string", "Weight": "decimal(9,3)", "born": "date"},
        exclude=("secret",),
        shard_column="shard",
        ddl=DdlPolicy(
            additive="review", widening="ignore", destructive="ignore", unparsed="review"
        ),
    )
    hens = route(declared, "barn", None, table="hens", ddl=policy)
    assert hens is not None
    assert (hens.keys, hens.columns) == (("id",), {"weight": "int", "name": "string"})
    assert hens.ddl == DdlPolicy(additive="review", widening="ignore", destructive="apply")


def test_a_file_without_entries_takes_every_table_and_an_empty_list_none() -> None:
    everything = Tables.model_validate({"source": "farm", "defaults": {"deletes": "soft"}})
    found = way(everything, "barn", None, "cows")
    assert found is not None
    assert (found.target, found.deletes) == ("barn_cows", "soft")
    assert way(tables(), "barn", None, "cows") is None


@pytest.mark.parametrize(
    ("template", "names", "expected"),
    [
        ("{db}_{table}", ("barn", "north", "cows"), "barn_cows"),
        ("{db}_{schema}_{table}", ("barn", "north", "cows"), "barn_north_cows"),
        ("{db}_{schema}_{table}", ("barn", None, "cows"), "barn_cows"),
        ("{schema}_{table}", (None, None, "cows"), "cows"),
        ("{db}_{table}", (None, None, "cows"), "cows"),
        ("{table}__{schema}", ("barn", None, "cows_"), "cows_"),
        ("{db}{schema}_{table}", ("barn_", None, "cows"), "barn__cows"),
        ("in_{db}_{schema}_now", (None, None, "cows"), "in_now"),
        ("{table}", ("barn", None, "wild-hens v2.1"), "wild_hens_v2_1"),
        ("{table}", ("barn", None, "订单"), "__"),
        ("Cows", ("barn", None, "cows_01"), "Cows"),
    ],
)
def test_a_template_names_the_target(template: str, names: Names, expected: str) -> None:
    db, schema, table = names
    assert check_target(template) == template
    assert target_name(template, db=db, schema=schema, table=table) == expected


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc", "..", "a/../../b", "C:\\x", "~/.ssh", "a\x00b", "s3://b/c"]
)
def test_a_source_table_named_like_a_path_stays_in_its_schema(name: str) -> None:
    for names in ((name, None, "t"), ("barn", None, name), (name, name, name)):
        found = target(tables({"from": "*"}), *names)
        assert found is not None and re.fullmatch(r"\w+", found), found


@pytest.mark.parametrize("template", ["{database}", "{db!r}", "{table:>9}", "{}", "{0}", "{db.x}"])
def test_a_template_names_only_what_a_source_table_has(template: str) -> None:
    with pytest.raises(ValueError, match=r"expected only \{db\}, \{schema\} and \{table\}"):
        check_target(template)


@pytest.mark.parametrize("template", ["{db", "db}", "{{db}"])
def test_a_malformed_template_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"expected a name with \{db\}, \{schema\} and \{table\}"):
        check_target(template)


@pytest.mark.parametrize("template", ["_ddl", "_PROGRESS", "-rejects"])
def test_a_target_is_none_of_golds_own_tables(template: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a target"):
        check_target(template)


def meet(
    *declared: tuple[Tables, Names], feeders: Mapping[str, Sequence[SourceTable]] | None = None
) -> dict[str, list[str]]:
    """The source tables that collisions park, each by its own tables file, as text."""
    routed = []
    for file, (db, schema, table) in declared:
        found = way(file, db, schema, table)
        assert found is not None
        routed.append((SourceTable(file.source, db, schema, table), found))
    met = collisions(routed, feeders or {})
    return {name: [str(table) for table in collision.parked] for name, collision in met.items()}


def test_shards_that_one_entry_gives_one_target_do_not_collide() -> None:
    """semantics.md, 27."""
    shards = tables({"from": ["barn_0?.cows_??", "old.cows"], "target": "cows"})
    assert (
        meet(
            (shards, ("barn_01", None, "cows_01")),
            (shards, ("barn_02", None, "cows_01")),
            (shards, ("old", None, "cows")),
        )
        == {}
    )
    by_table = tables({"from": "barn_0?.*", "target": "{table}"})
    assert (
        meet(
            (by_table, ("barn_01", None, "cows")),
            (by_table, ("barn_02", None, "cows")),
            (by_table, ("barn_02", None, "hens")),
        )
        == {}
    )


def test_names_that_only_the_mapping_makes_equal_collide() -> None:
    """semantics.md, 25."""
    every = tables({"from": "*"})
    assert meet(
        (every, ("barn", None, "wild-hens")),
        (every, ("barn", None, "wild_hens")),
        (every, ("barn", None, "cows")),
    ) == {"barn_wild_hens": ["farm:barn.wild-hens", "farm:barn.wild_hens"]}
    assert meet((every, ("a_b", None, "c")), (every, ("a", None, "b_c"))) == {
        "a_b_c": ["farm:a.b_c", "farm:a_b.c"]
    }
    by_table = tables({"from": "*", "target": "{table}"})
    assert meet((by_table, ("a", None, "x y")), (by_table, ("b", None, "x-y"))) == {
        "x_y": ["farm:a.x y", "farm:b.x-y"]
    }


def test_the_default_template_never_merges_schemas() -> None:
    every = tables({"from": "*", "target": "{db}_{table}"})
    north, south = ("barn", "north", "cows"), ("barn", "south", "cows")
    assert meet((every, north), (every, south)) == {
        "barn_cows": ["farm:barn.north.cows", "farm:barn.south.cows"]
    }
    meant = tables({"from": "barn.*.cows", "target": "barn_cows"})
    assert meet((meant, north), (meant, south)) == {}


def test_two_entries_or_two_sources_with_one_target_collide() -> None:
    two = tables({"from": "a.cows", "target": "cows"}, {"from": "b.cows", "target": "cows"})
    assert meet((two, ("a", None, "cows")), (two, ("b", None, "cows"))) == {
        "cows": ["farm:a.cows", "farm:b.cows"]
    }
    farm, ranch = (tables({"from": "*"}, source=name) for name in ("farm", "ranch"))
    assert meet((farm, ("barn", None, "cows")), (ranch, ("barn", None, "cows"))) == {
        "barn_cows": ["farm:barn.cows", "ranch:barn.cows"]
    }


def test_targets_that_differ_only_in_case_collide() -> None:
    every = tables({"from": "*"})
    assert meet((every, ("Barn", None, "Cows")), (every, ("barn", None, "cows"))) == {
        "barn_cows": ["farm:Barn.Cows", "farm:barn.cows"]
    }


def test_who_fed_a_target_first_goes_on_with_those_that_share_it() -> None:
    """semantics.md, 70."""
    two = tables({"from": "barn_0?.cows", "target": "cows"}, {"from": "new.cows", "target": "Cows"})
    first = SourceTable("farm", "barn_01", None, "cows")
    declared = [(two, (db, None, "cows")) for db in ("barn_01", "barn_02", "new")]
    assert meet(*declared, feeders={"cows": [first]}) == {"cows": ["farm:new.cows"]}
    newcomer = SourceTable("farm", "new", None, "cows")
    assert meet(*declared, feeders={"cows": [newcomer, first]}) == {
        "cows": ["farm:barn_01.cows", "farm:barn_02.cows"]
    }
    gone = SourceTable("farm", "old", None, "cows")
    assert meet(*declared, feeders={"cows": [gone, first]}) == {"cows": ["farm:new.cows"]}
    assert meet(*declared, feeders={"cows": [gone]}) == {
        "cows": ["farm:barn_01.cows", "farm:barn_02.cows", "farm:new.cows"]
    }


def test_a_target_that_another_source_feeds_is_not_to_be_had() -> None:
    ranch = tables({"from": "*", "target": "cows"}, source="ranch")
    first = SourceTable("farm", "barn", None, "cows")
    assert meet((ranch, ("barn", None, "cows")), feeders={"cows": [first]}) == {
        "cows": ["ranch:barn.cows"]
    }


def test_a_source_table_cannot_become_one_of_golds_own() -> None:
    bare = tables({"from": "*", "target": "{table}"})
    assert meet((bare, ("barn", None, "_DDL")), (bare, ("barn", None, "cows"))) == {
        "_ddl": ["farm:barn._DDL"]
    }


def test_a_target_whose_name_no_folder_can_have_is_parked() -> None:
    """By a sentence: the file system has a number for it."""
    long = SourceTable("shop", "shop", None, "x" * 300)
    way = route(Tables(source="shop"), "shop", None, table="x" * 300, ddl=DdlPolicy())
    assert way is not None
    [clash] = collisions([(long, way)], {}).values()
    assert (clash.feeding, clash.parked) == ((), (long,))
    assert clash.why(long) == (
        f"expected a target of at most 255 characters, got shop_{'x' * 35}… of 305 for {long}; set "
        "`target` for it in a tables file (conf/tables)"
    )
    fits = SourceTable("shop", "shop", None, "x" * 250)
    way = route(Tables(source="shop"), "shop", None, table="x" * 250, ddl=DdlPolicy())
    assert way is not None and collisions([(fits, way)], {}) == {}
    with pytest.raises(ValueError, match="expected at most 255 characters, got 256"):
        check_target("y" * 256)


def test_one_source_table_seen_twice_is_one() -> None:
    every = tables({"from": "*"})
    cows = ("barn", None, "cows")
    assert meet((every, cows), (every, cows)) == {}


def test_a_table_without_database_is_matched_by_its_schema() -> None:
    assert matches("public.*", db=None, schema="public", table="orders")
    assert not matches("shop.orders", db=None, schema="public", table="orders")
    assert not matches("public.*", db="shop", schema="public", table="orders")


@pytest.mark.parametrize(
    ("general", "special", "covered"),
    [
        ("*", "a.b.c", True),
        ("a.*", "a.b", True),
        ("a.*", "a.s.b", True),
        ("a.*", "*", False),
        ("*.b", "b", True),
        ("a.o_??", "a.o_01", True),
        ("a.o_??", "a.o_*", False),
        ("a.o_*", "a.o_??", True),
        ("a.b*", "a.*b", False),
        ("a.s.*", "a.s.b", True),
        ("a.s.*", "a.b", False),
        ("a.*", "A.b", False),
        ("a.`b*`", "a.b*", False),
        ("a.b*", "a.`b*`", True),
    ],
)
def test_a_pattern_that_covers_another(general: str, special: str, covered: bool) -> None:
    assert covers(general, special) is covered


_NAMES = st.sampled_from(["a", "b", "a.b", "x"])
_PARTS = st.sampled_from(["a", "b", "x", "*", "a*", "?", "`a.b`", "`*`"])
_PATTERNS = st.lists(st.lists(_PARTS, min_size=1, max_size=3).map(".".join), min_size=1, max_size=3)


@given(
    st.lists(_PATTERNS, max_size=6),
    st.tuples(st.none() | _NAMES, st.none() | _NAMES, _NAMES),
)
def test_the_last_entry_that_matches_is_found_by_names_and_by_wildcards(
    entries: list[list[str]], names: tuple[str | None, str | None, str]
) -> None:
    db, schema, table = names
    declared = tables(*({"from": each, "target": f"t{i}"} for i, each in enumerate(entries)))
    found = target(declared, db, schema, table)
    last = [
        f"t{i}"
        for i, patterns in enumerate(entries)
        if any(matches(each, db=db, schema=schema, table=table) for each in patterns)
    ][-1:]
    assert ([] if found is None else [found]) == last


@given(st.lists(_PATTERNS, max_size=5))
def test_what_never_applies_is_found_by_names_and_by_wildcards(entries: list[list[str]]) -> None:
    declared = tables(*({"from": each} for each in entries))
    found = [said.text.split("`")[1] for said in shadowed_patterns(Document("f", {}, {}), declared)]
    never = [
        f"tables[{i}].from"
        for i, patterns in enumerate(entries)
        for pattern in patterns
        if any(covers(each, pattern) for later in entries[i + 1 :] for each in later)
    ]
    assert found == never


@pytest.mark.parametrize("pattern", ["farm_?.t{}", "farm{}.*", "*.t{}", "farm.t{}_??", "t{}_*"])
def test_thousands_of_patterns_are_not_held_against_each_other(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each logical table of a database in shards."""
    many = [{"from": pattern.format(f"{i:04}"), "target": f"t{i}"} for i in range(3_000)]
    declared = tables({"from": "*"}, *many)
    compared: list[str] = []

    def counted(general: str, *special: str, **names: str | None) -> bool:
        compared.append(general)
        return covers(general, *special) if special else matches(general, **names)  # type: ignore[arg-type]

    monkeypatch.setattr("ingest.config.checks.covers", counted)
    monkeypatch.setattr("ingest.config.routes.matches", counted)
    assert list(shadowed_patterns(Document("f", {}, {}), declared)) == []
    for number in (0, 7, 2_999):
        name = pattern.format(f"{number:04}").replace("*", "x").replace("?", "1")
        db, _, table = name.rpartition(".")
        assert target(declared, db or "d", None, table) == f"t{number}"
    assert target(declared, "barn", None, "hens") == "barn_hens"
    assert len(compared) < 4 * len(many)


def test_thousands_of_tables_are_not_held_against_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `ingest init --from` writes them: every command reads them."""
    many = [{"from": f"farm.t{i}", "target": f"t{i}"} for i in range(3_000)]
    declared = tables({"from": "*"}, *many)
    compared = []

    def compare(*_: Any, **__: Any) -> bool:
        compared.append(True)
        return False

    monkeypatch.setattr(checks, "covers", compare)
    monkeypatch.setattr(routes, "matches", compare)
    assert list(shadowed_patterns(Document("f", {}, {}), declared)) == []
    assert [target(declared, "farm", None, f"t{i}") for i in (0, 2_999)] == ["t0", "t2999"]
    assert len(compared) <= len(many) + 1
