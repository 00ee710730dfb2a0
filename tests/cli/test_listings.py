"""How `ingest ddl` and `ingest rejects` name what they list, and how much of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest.ddl.changes import AddColumn, DropColumn
from ingest.errors import ConfigError
from ingest.sql.rejects.listings import in_order
from ingest.sql.tables.alter import script
from pipelines.cli.context import Invocation
from pipelines.operations import listings
from pipelines.operations.dismissals import dismiss
from pipelines.operations.listings import (
    REJECT,
    SUMMARY,
    Wanted,
    one,
    reject,
    rejects,
)
from pipelines.platform.upserts import upsert
from pipelines.targets.rejects import REJECTS, create_rejects
from tests.support.project import Project
from tests.support.tables import tables_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_proposed_statement_names_its_table_as_a_query_does() -> None:
    """Whatever a column is called: by what looks like the beginning of a statement, too."""
    hostile = f"a;\nALTER TABLE {'a' * 5_000}"
    assert script("gold.t", [DropColumn(hostile), AddColumn("c", "int")]) == (
        f"ALTER TABLE gold.t DROP COLUMN `{hostile}`;\nALTER TABLE gold.t ADD COLUMNS (`c` int)"
    )


def test_an_id_may_be_short_as_long_as_it_is_one_alone() -> None:
    listed = [{"id": id_} for id_ in ("abc1", "abc2", "abc", "d")]
    assert one(listed, "abc", what="reject") == {"id": "abc"}
    assert one(listed, "d", what="reject") == {"id": "d"}
    with pytest.raises(ConfigError, match="no reject has an id that begins with `x`"):
        one(listed, "x", what="reject")
    with pytest.raises(ConfigError, match="3 rejects have an id that begins with `ab`; give more"):
        one(listed, "ab", what="reject")


@pytest.mark.parametrize(
    ("options", "listed", "said"),
    [
        ((), 1000, "and 200 more; `--limit 1200` shows all\n"),
        (("--limit", "5"), 5, ""),
        (("--limit", "1200"), 1200, ""),
        (("--json",), 1200, ""),
    ],
)
def test_people_are_shown_the_first_rejects_and_how_many_more_there_are(
    options: tuple[str, ...],
    listed: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def some(_: Any, wanted: Wanted) -> list[list[Any]]:
        return [["1a2b", *[None] * (len(REJECT) - 1)]] * (wanted.limit or 1200)

    monkeypatch.setattr(Invocation, "warehouse", None)
    monkeypatch.setattr("pipelines.operations.listings.rejects", some)
    monkeypatch.setattr("pipelines.operations.listings.ids_like", lambda *_: [])
    kind = [None] * SUMMARY.index("count")
    monkeypatch.setattr("pipelines.operations.listings.summary", lambda *_: [[*kind, 1200, None]])
    answer = Project(tmp_path, capsys.readouterr).ingest("rejects", "list", *options)
    assert (answer.out.count("1a2b"), answer.err) == (listed, said)


def test_rejects_come_part_after_part(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same order, and with their bytes, however they are cut."""
    warehouse = tables_in(tmp_path, spark)
    columns = dict.fromkeys((name for name, _ in REJECTS))
    own = {"stage": "gold", "source": "s", "topic": "t", "partition": 0, "row": 0, "epoch": 0}
    found = [
        {"id": f"{offset:02}a", "offset": offset, "value": bytes([offset]) * 100, "status": "open"}
        for offset in (7, 3, 5, 1, 6, 2, 4)
    ]
    create_rejects(warehouse)
    rows = [tuple({**columns, **own, **row}.values()) for row in found]
    upsert(warehouse, "gold", "_rejects", columns=REJECTS, rows=rows)
    whole = list(rejects(warehouse))
    assert [row[REJECT.index("offset")] for row in whole] == [1, 2, 3, 4, 5, 6, 7]
    for name, most in (("_PART", 2), ("_PART_BYTES", 250)):
        with monkeypatch.context() as patch:
            patch.setattr(listings, name, most)
            assert list(rejects(warehouse)) == whole
            assert list(rejects(warehouse, Wanted(limit=3))) == whole[:3]
    assert reject(warehouse, "03") == reject(warehouse, "03a") == whole[2]
    with pytest.raises(ConfigError, match="7 rejects have an id that begins with `0`; give more"):
        reject(warehouse, "0")
    with pytest.raises(ConfigError, match="no reject has an id that begins with `x`"):
        reject(warehouse, "x")


def test_what_is_resolved_is_not_dismissed(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = tables_in(tmp_path, spark)
    columns = dict.fromkeys((name for name, _ in REJECTS))
    own = {"stage": "gold", "source": "s", "topic": "t", "partition": 0, "row": 0, "epoch": 0}
    create_rejects(warehouse)
    rows = [
        tuple({**columns, **own, "id": id_, "offset": 1, "status": status}.values())
        for id_, status in (("01", "open"), ("02", "resolved"))
    ]
    upsert(warehouse, "gold", "_rejects", columns=REJECTS, rows=rows)
    done = dismiss(warehouse, ["01", "02"], by="ada", why="junk")
    place = REJECT.index("status")
    assert [row[place] for row in done] == ["dismissed", "resolved"]


def test_people_are_shown_open_rejects_first(spark: SparkSession) -> None:
    places = "0 AS epoch, 't' AS topic, 0 AS `partition`, 0 AS offset, 0 AS `row`, 'gold' AS stage"
    given = "VALUES ('a', 'resolved'), ('b', 'open'), ('c', 'dismissed'), ('d', 'open')"
    found = (
        f"SELECT *, {places}, 'x' AS target, X'00' AS value FROM ({given}) AS r (source, status)"
    )
    for values, order in ((True, "abcd"), (False, "bdac")):
        text = in_order(found, columns=["source", "value"], limit=9, values=values)
        assert "".join(row.source for row in spark.sql(text).collect()) == order
