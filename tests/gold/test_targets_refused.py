"""What gold refuses rather than guess or leak: the target is parked, and named by the command."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import PendingChanges, pending_changes
from tests.support.project import Project, canal, canal_ddl

pytestmark = pytest.mark.usefixtures("spark")
SOURCE = "name: {name}\nformat: canal\nfiles: {{path: 'landing/{name}-*.jsonl', order: path}}\n"
TABLES = "source: eu\ntables: [{{from: '*'}}, {{from: shop.secret{exclude}}}]\n"


def row(table: str, id_: int, **more: str) -> dict[str, object]:
    columns = {"id": str(id_), **more}
    types = {name: "int" if name == "id" else "varchar(20)" for name in columns}
    return canal(table, "INSERT", columns, es=1_700_000_000_000 + id_, id_=id_, types=types)


@pytest.mark.slow
def test_what_names_no_table_stays_in_silver_and_stops_no_later_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/eu.yml", SOURCE.format(name="eu"))
    nameless = [
        {**row("o", 7), "table": None},
        {**canal_ddl("o", "CREATE DATABASE more", es=1_700_000_000_008, id_=8), "table": None},
    ]
    project.land("eu-1.jsonl", [row("o", 1), *nameless])
    project.land("eu-2.jsonl", [{**row("o", 9), "table": None, "database": None}])
    first = project.ingest("run")
    assert (first.code, "changes that name no table stay in silver" in first.err) == (0, True)
    project.land("eu-3.jsonl", [row("o", 10), {**row("o", 11), "table": None}])
    assert project.ingest("run").code == 0
    assert project.ingest("status").code == 0
    found = project.ingest("sql", "SELECT id FROM gold.shop_o ORDER BY id", "--json")
    assert found.records == [{"id": 1}, {"id": 10}]


def test_what_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    for name in ("eu", "us"):
        project.write(f"conf/sources/{name}.yml", SOURCE.format(name=name))
    project.write("conf/tables/eu.yml", TABLES.format(exclude=""))
    project.land(
        "eu-1.jsonl",
        [row("o", 1, v="eu"), row("o", 2, v="eu"), row("secret", 1, v="a", n="s")],
    )
    hostile = row("price${list}", 1, **{"pay${x}": "${env:HOME}", "_pos": "x"})
    default = "Dear ${name}, ${env:HOME} at ${system:user.dir} # '${spark.app.name}'"
    text = default.replace("'", "''")
    added = (
        "ALTER TABLE `told${env:HOME}` ADD COLUMN `leak` varchar(99) NOT NULL "
        f"DEFAULT '{text}' COMMENT '${{env:HOME}}'"
    )
    told = [
        row("told${env:HOME}", 1),
        canal_ddl("told${env:HOME}", added, es=1_700_000_009_000, id_=9),
    ]
    long = "x" * 300
    project.land("us-1.jsonl", [row("o", 1, v="us"), hostile, *told, row(long, 1)])
    answer = project.ingest("run")
    assert answer.code == 1
    text = f"table shop_{long} is parked: expected a target of at most 255 characters, got shop_x"
    assert text in answer.err, answer.err
    error = "expected shop_o to be fed by one source, which is eu, got us:shop.o; set `target`"
    assert (
        f"table us:shop.o is parked: {error} for it in a tables file (conf/tables)\n" in answer.err
    ), answer.err
    for layer in ("gold", "history"):
        query = f"SELECT id, `pay${{x}}`, _pos_source FROM {layer}.shop_price__list_"
        found = project.ingest("sql", query, "--json")
        assert found.records == [{"id": 1, "pay${x}": "${env:HOME}", "_pos_source": "x"}]
    entries = project.ingest("ddl", "list", "--json").records
    (aside,) = (entry for entry in entries if entry["target"] == "shop_price__list_")
    assert (aside["kind"], aside["status"], aside["why"]) == (
        "rename_column",
        "applied",
        "`_pos` is a column of gold's own: the source's is `_pos_source` there",
    )
    found = project.ingest("sql", "SELECT id, leak FROM gold.shop_told__env_HOME_", "--json")
    assert found.records == [{"id": 1, "leak": default}]
    assert project.ingest("rebuild", "shop_told__env_HOME_").code == 0
    found = project.ingest("sql", "SELECT id, leak FROM gold.shop_told__env_HOME_", "--json")
    assert found.records == [{"id": 1, "leak": default}]
    found = project.ingest("sql", "SELECT id, v FROM gold.shop_o ORDER BY id", "--json")
    assert found.records == [{"id": 1, "v": "eu"}, {"id": 2, "v": "eu"}]

    project.write("conf/tables/eu.yml", TABLES.format(exclude=", exclude: [n]"))
    project.land("eu-2.jsonl", [row("secret", 2, v="b", n="t")])
    answer = project.ingest("run", "--source", "eu")
    assert answer.code == 1
    assert (
        "table shop_secret is parked: expected shop_secret without the excluded n, which it has "
        "from before; `ingest rebuild shop_secret` takes it away"
    ) in " ".join(answer.err.split())
    answer = project.ingest("rebuild", "shop_secret")
    assert (answer.code, "shop_secret: column n string goes\n" in answer.err) == (0, True)
    found = project.ingest("sql", "SELECT * FROM gold.shop_secret ORDER BY id", "--json")
    assert [(r["id"], r["v"], "n" in r) for r in found.records] == [
        (1, "a", False),
        (2, "b", False),
    ]

    # Who turns up and would meet another in its target is parked alone; the target goes on.
    led = TABLES.format(exclude=", exclude: [n]")
    project.write("conf/tables/eu.yml", led.replace("]\n", ", {from: shop.p, target: shop_o}]\n"))
    project.land("eu-3.jsonl", [row("O", 1, v="other"), row("p", 1, v="p"), row("o", 3, v="eu")])
    project.land("us-2.jsonl", [row("fine", 1)])
    for again in (False, True):
        answer = project.ingest("run")
        assert answer.code == 1
        for table in ("eu:shop.O", "eu:shop.p"):
            text = (
                f"table {table} is parked: expected shop_o to be fed by eu:shop.o alone, as it was "
                f"before, got {table}; set `target` for it in a tables file (conf/tables)"
            )
            assert text in " ".join(answer.err.split()), again
    found = project.ingest("sql", "SELECT id, v FROM gold.shop_o ORDER BY id", "--json")
    assert found.records == [{"id": id_, "v": "eu"} for id_ in (1, 2, 3)]
    assert project.ingest("reconcile", "shop_o").code == 0
    stands = {r["table"]: r for r in project.ingest("status", "--json").records if "table" in r}
    assert {name for name, r in stands.items() if r["parked"]} == {
        *("eu:shop.O", "eu:shop.p", "us:shop.o", f"shop_{long}"),
    }
    assert (stands["shop_o"]["source"], stands["shop_o"]["rows"]) == ("eu", 3)
    kept = spark.read.format("delta").load(str(tmp_path / "warehouse/gold/_progress"))
    assert kept.where("target = 'eu:shop.p'").count() == 1
    project.write("conf/tables/eu.yml", led.replace("]\n", ", {from: shop.p, target: p}]\n"))
    with monkeypatch.context() as patch:
        # What one source meets in gold is its own.
        def fails(
            warehouse: Warehouse, source: str, *rest: object, **more: object
        ) -> PendingChanges:
            if source == "eu":
                raise ValueError("nobody foresaw this")
            return pending_changes(warehouse, source, *rest, **more)  # type: ignore[arg-type]

        patch.setattr("pipelines.gold.run.pending_changes", fails)
        project.land("us-3.jsonl", [row("fine", 2)])
        answer = project.ingest("run")
        assert answer.code == 1
        assert "source eu failed: gold: unexpected ValueError: nobody foresaw this" in answer.err
    found = project.ingest("sql", "SELECT id FROM gold.shop_fine ORDER BY id", "--json")
    assert found.records == [{"id": 1}, {"id": 2}]
    assert "eu:shop.p" not in project.ingest("run").err
    found = project.ingest("sql", "SELECT id, v FROM gold.p", "--json")
    assert found.records == [{"id": 1, "v": "p"}]
    log = tmp_path / "warehouse/_checkpoints/bronze/eu/files"
    newest = max(log.glob("*.json"))
    newest.write_text("{")
    answer = project.ingest("status", "--json")
    assert (answer.code, "source eu: a checkpoint is damaged" in answer.err) == (1, True)
    records = answer.records
    assert [r["unread_files"] for r in records if r["kind"] == "source"] == [None, 0]
    assert {r["table"] for r in records if r.get("parked")} == {
        *("eu:shop.O", "us:shop.o", f"shop_{long}"),
    }

    # A project on the same warehouse that does not know the first source mixes nothing either.
    (tmp_path / "conf/sources/eu.yml").unlink()
    (tmp_path / "conf/tables/eu.yml").unlink()
    project.land("us-4.jsonl", [row("o", 4, v="us")])
    answer = project.ingest("run")
    assert (answer.code, f"table us:shop.o is parked: {error}" in answer.err) == (1, True)
    found = project.ingest("sql", "SELECT DISTINCT v FROM gold.shop_o", "--json")
    assert found.records == [{"v": "eu"}]


def oms(tenant: str, id_: int) -> dict[str, object]:
    """An insert as OMS sends it of an OceanBase tenant."""
    meta = {
        **{
            "dbType": "OB_MYSQL",
            "db": f"{tenant}.shop",
            "table_name": "o",
            "timestamp": "1704134400",
        },
        **{"storeDataSequence": 170413440000000 + id_, "record_primary_key": "id"},
        **{"record_primary_value": str(id_), "checkpoint": None},
    }
    image = {"id": id_, "v": tenant}
    return {
        **{"prevStruct": None, "postStruct": image, "allMetaData": meta, "recordType": "INSERT"},
    }


@pytest.mark.slow
def test_a_table_is_one_tenants_and_has_one_order(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Positions in a binlog lie below any millisecond: what came by arrival would win for ever. Two
    tenants' tables of one name are two."""
    project = Project(tmp_path, capsys.readouterr)
    ob = SOURCE.format(name="ob").replace("canal", "oms_default")
    project.write("conf/sources/ob.yml", ob)
    project.write("conf/tables/ob.yml", "source: ob\ntables: [{from: '*', target: 'ob_{table}'}]\n")
    project.land("ob-1.jsonl", [oms("north", 1)])
    source = SOURCE.format(name="eu").replace("canal", "auto")
    project.write("conf/sources/eu.yml", source)
    project.land("eu-1.jsonl", [row("o", 1, v="canal"), row("p", 1, v="canal")])
    assert project.ingest("run").code == 0
    project.land("ob-2.jsonl", [oms("south", 1), oms("north", 2)])
    place = {"file": "binlog.000007", "pos": 120, "row": 0, "server_id": 1, "ts_ms": 1}
    named = {"connector": "mysql", "db": "shop", "snapshot": "false"}
    moved = {
        "op": "u",
        "before": {"id": 1, "v": "canal"},
        "after": {"id": 1, "v": "debezium"},
        "ts_ms": 1_700_000_010_000,
    }
    changes = [{**moved, "source": {**named, **place, "table": name}} for name in ("o", "q")]
    project.land("eu-2.jsonl", changes)
    answer = project.ingest("run")
    error = (
        "table shop_o is parked: expected the changes of shop.o in one order, got positions by "
        "arrival and the log of debezium, which cannot be compared; set `order: arrival` for the "
        "source eu and run `ingest redecode --source eu`, or declare a source for each"
    )
    assert (answer.code, error in " ".join(answer.err.split())) == (1, True), answer.err
    error = "of shop.o of one OceanBase tenant, got those of north and south; set `options: {tenant"
    assert error in " ".join(answer.err.split())
    project.write("conf/sources/ob.yml", f"{ob}options: {{tenant: north}}\n")
    assert project.ingest("redecode", "--source", "ob").code == 0
    found = project.ingest("sql", "SELECT id, v FROM gold.ob_o ORDER BY id", "--json").records
    assert found == [{"id": "1", "v": "north"}, {"id": "2", "v": "north"}]
    query = "SELECT v FROM gold.shop_{} WHERE id = 1"
    for table, v in (("o", "canal"), ("p", "canal"), ("q", "debezium")):
        assert project.ingest("sql", query.format(table), "--json").records == [{"v": v}]
    project.write("conf/sources/eu.yml", f"{source}order: arrival\n")
    answer = project.ingest("redecode", "--source", "eu")
    assert answer.code == 0, answer.err
    assert project.ingest("run").code == 0
    assert project.ingest("sql", query.format("o"), "--json").records == [{"v": "debezium"}]
    assert project.ingest("reconcile", "shop_o").code == 0


@pytest.mark.slow
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
        assert "`ingest rebuild shop_o` makes it so, or set what" in " ".join(answer.err.split())
        assert project.ingest("rebuild", "shop_o").code == 0
        found = project.ingest("sql", query, "--json").records
        assert [(row["id"], row["there"]) for row in found] == rows
        assert project.ingest("reconcile", "shop_o").code == 0


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_name_that_another_table_has_since(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gold follows a table to its new name; what comes under the earlier one is not mixed in."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/eu.yml", SOURCE.format(name="eu") + "order: source\n")
    entry = "source: eu\ntables: [{from: '*', ddl: {destructive: apply}}]\n"
    project.write("conf/tables/eu.yml", entry)

    def ddl(text: str, at: int) -> dict[str, object]:
        return canal_ddl("t", text, es=1_700_000_000_000 + at, id_=at)

    project.land("eu-1.jsonl", [row("t", 1, v="a")])
    assert project.ingest("run").code == 0
    project.land("eu-2.jsonl", [ddl("RENAME TABLE t TO t_old", 2), row("t_old", 3, v="b")])
    assert project.ingest("run").code == 0
    query = "SELECT id, v FROM gold.shop_t ORDER BY id"
    followed = [{"id": 1, "v": "a"}, {"id": 3, "v": "b"}]
    assert project.ingest("sql", query, "--json").records == followed
    created = ddl("CREATE TABLE t (id int primary key, v varchar(20))", 4)
    project.land("eu-3.jsonl", [created, row("t", 5, v="c"), row("t_old", 6, v="d")])
    for _ in range(2):
        answer = project.ingest("run")
        assert answer.code == 1
        said = " ".join(answer.err.split())
        assert "table shop_t is parked: shop.t was renamed to shop.t_old (schema change " in said
        assert "`ingest reset shop_t --yes` makes it anew with the later one's" in said
    assert project.ingest("sql", query, "--json").records == followed
    assert "was renamed to shop.t_old" in project.ingest("rebuild", "shop_t").err
    assert project.ingest("reset", "shop_t", "--yes").code == 0
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    assert project.ingest("sql", query, "--json").records == [{"id": 5, "v": "c"}]
    found = project.ingest("sql", "SELECT id, v FROM gold.shop_t_old ORDER BY id", "--json")
    assert found.records == [{"id": 3, "v": "b"}, {"id": 6, "v": "d"}]
    for target in ("shop_t", "shop_t_old"):
        assert project.ingest("reconcile", target).code == 0


@pytest.mark.slow
def test_a_table_that_lost_its_key_column_is_made_anew(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody took the column away by hand, or put another table in its place."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/eu.yml", SOURCE.format(name="eu"))
    project.land("eu-1.jsonl", [row("o", 1, v="a")])
    assert project.ingest("run").code == 0
    gold = f"delta.`{tmp_path / 'warehouse/gold/shop_o'}`"
    spark.read.table(gold).drop("id").write.format("delta").mode("overwrite").option(
        "overwriteSchema", "true"
    ).saveAsTable(gold)
    project.land("eu-2.jsonl", [row("o", 2, v="b")])
    answer = project.ingest("run")
    error = "expected the key column id in shop_o, got a table without; `ingest rebuild shop_o"
    assert (answer.code, f"table shop_o is parked: {error} --yes`" in answer.err) == (1, True), (
        answer.err
    )
    assert project.ingest("rebuild", "shop_o", "--yes").code == 0
    found = project.ingest("sql", "SELECT id, v FROM gold.shop_o ORDER BY id", "--json")
    assert found.records == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
