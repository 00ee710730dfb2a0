"""What gold refuses rather than guess or leak: the target is parked, and named by the command."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.project import Project, canal

pytestmark = pytest.mark.usefixtures("frugal")
SOURCE = "name: {name}\nformat: canal\nfiles: {{path: 'landing/{name}-*.jsonl', order: path}}\n"
TABLES = "source: eu\ntables: [{{from: '*'}}, {{from: shop.secret{exclude}}}]\n"


def row(table: str, id_: int, **more: str) -> dict[str, object]:
    columns = {"id": str(id_), **more}
    types = {name: "int" if name == "id" else "varchar(20)" for name in columns}
    return canal(table, "INSERT", columns, es=1_700_000_000_000 + id_, id_=id_, types=types)


def test_what_is_refused(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    for name in ("eu", "us"):
        project.write(f"conf/sources/{name}.yml", SOURCE.format(name=name))
    project.write("conf/tables/eu.yml", TABLES.format(exclude=""))
    project.land(
        "eu-1.jsonl",
        [row("o", 1, v="eu"), row("o", 2, v="eu"), row("secret", 1, v="a", n="s")],
    )
    project.land("us-1.jsonl", [row("o", 1, v="us"), row("odd", 1, _pos="x")])
    answer = project.ingest("run")
    assert answer.code == 1
    for target, error in (
        (
            "shop_o",
            "expected shop_o to be fed by one source, which is eu, got us:shop.o; set `target` for "
            "it",
        ),
        ("shop_odd", "column `_pos` has the name of one that gold adds to every row; exclude it"),
    ):
        assert f"table {target} is parked: {error}\n" in answer.err, answer.err
    found = project.ingest("sql", "SELECT id, v FROM gold.shop_o ORDER BY id", "--json")
    assert found.records == [{"id": 1, "v": "eu"}, {"id": 2, "v": "eu"}]

    project.write("conf/tables/eu.yml", TABLES.format(exclude=", exclude: [n]"))
    project.land("eu-2.jsonl", [row("secret", 2, v="b", n="t")])
    answer = project.ingest("run", "--source", "eu")
    assert answer.code == 1
    assert (
        "table shop_secret is parked: expected shop_secret without the excluded n, which it has "
        "from before; take it away with ALTER TABLE … DROP COLUMN, or choose another target"
    ) in " ".join(answer.err.split())
    target = tmp_path / "warehouse" / "gold" / "shop_secret"
    spark.sql(f"ALTER TABLE delta.`{target}` DROP COLUMN n")
    assert project.ingest("run", "--source", "eu").code == 0
    found = project.ingest("sql", "SELECT * FROM gold.shop_secret ORDER BY id", "--json")
    assert [(r["id"], r["v"], "n" in r) for r in found.records] == [
        (1, "a", False),
        (2, "b", False),
    ]

    project.land("eu-3.jsonl", [row("O", 1, v="other")])
    answer = project.ingest("run", "--source", "eu")
    assert answer.code == 1
    text = "table shop_O is parked: source tables eu:shop.O, eu:shop.o all lead to shop_O"
    assert text in " ".join(answer.err.split())
    found = project.ingest("sql", "SELECT v FROM gold.shop_o WHERE id = 1", "--json")
    assert found.records == [{"v": "eu"}]


def test_deletes_stay_what_they_were_until_a_rebuild(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/eu.yml", SOURCE.format(name="eu"))
    tables = "source: eu\ntables: [{{from: '*', deletes: {deletes}}}]\n"
    gone = [{**row("o", id_), "type": "DELETE"} for id_ in (1, 2)]
    project.write("conf/tables/eu.yml", tables.format(deletes="hard"))
    project.land("eu-1.jsonl", [row("o", 1), row("o", 2), gone[0]])
    assert project.ingest("run").code == 0
    query = "SELECT id, _deleted_at IS NULL AS there FROM gold.shop_o ORDER BY id"
    for deletes, message, rows in (
        ("soft", gone[1], [(1, False), (2, False)]),
        ("hard", row("o", 3), [(3, True)]),
    ):
        project.write("conf/tables/eu.yml", tables.format(deletes=deletes))
        project.land(f"eu-{deletes}.jsonl", [message])
        answer = project.ingest("run")
        assert answer.code == 1
        assert "`ingest rebuild shop_o`, or what it was made with" in " ".join(answer.err.split())
        assert project.ingest("rebuild", "shop_o").code == 0
        found = project.ingest("sql", query, "--json").records
        assert [(row["id"], row["there"]) for row in found] == rows
        assert project.ingest("reconcile", "shop_o").code == 0


def test_a_truncate_in_a_later_file_empties_the_table(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/eu.yml", SOURCE.format(name="eu"))
    tables = (
        "[{from: '*'}, {from: shop.kept, stored_as_scd_type: 2}, {from: shop.soft, deletes: soft}]"
    )
    project.write("conf/tables/eu.yml", f"source: eu\ntables: {tables}\n")
    names = ("plain", "kept", "soft")
    for number in (1, 2):
        emptied = [
            {
                **{"database": "shop", "table": name, "isDdl": True, "type": "TRUNCATE"},
                **{"sql": f"TRUNCATE TABLE {name}", "es": 1_700_000_000_500, "id": 9},
            }
            for name in names
        ]
        rows = [row(name, number, v=str(number)) for name in names]
        project.land(f"eu-{number}.jsonl", [*(emptied if number == 2 else []), *rows])
        assert project.ingest("run").code == 0
    where = {"plain": "true", "kept": "_current", "soft": "_deleted_at IS NULL"}
    for name, present in where.items():
        query = f"SELECT id, v FROM gold.shop_{name} WHERE {present}"
        assert project.ingest("sql", query, "--json").records == [{"id": 2, "v": "2"}], name
        assert project.ingest("reconcile", f"shop_{name}").code == 0, name
