"""Gold, scenario by scenario: the folders of `tests/merge`, most named by their rule in
`ingest/semantics.md`.

All scenarios run in one warehouse, batch by batch; then some are applied again, which may change
nothing. Where pytest is asked for some (`-k`), only these run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyarrow.parquet import ParquetFile

from pipelines.gold.known_targets import known_targets
from pipelines.gold.reconstruction import as_applied
from pipelines.operations.rebuild import rebuild
from pipelines.targets.progress import progress_of
from tests.support.merge_scenarios import Laboratory, Row, Scenario, scenarios

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIOS = scenarios()
SNAPSHOT = "r49_snapshot_after_the_stream"
KEYS = 2_000
ROUNDS = 3
REPLAYED = (
    "r31_scd2_change_and_delete_applied_again",
    "r32_append_shards",
    "r34_key_change_whose_upsert_is_rejected",
    "r39_key_shift_over_two_batches",
    "r40_partial_key_change",
    "t12_truncate",
    "t14_schema_change_amid_a_batch",
)
REPLAYED_TOO = (
    "r29_partial_image_waits_for_its_base",
    "r30_soft_delete_then_late_update",
    "r38_skipped_no_op_beats_a_late_update",
    "r43_redelivery_of_a_tied_event",
    "t09c_partial_updates_out_of_order",
    "t10_split_update_that_changes_the_key",
    "t11_snapshot_read_after_the_stream",
)
"""Left to `make test-long`."""
REMADE = (
    "r27_shard_key_conflict_scd2",
    "r79_keys_of_many_types",
    "r28_delete_and_insert_in_one_batch_lacking_a_column",
    "sequence_by_below_an_added_column",
    "sequence_by_key_change_in_halves",
    "r73_names_of_ours_scd2",
)
KILLED = (
    "r23_outgrown_column_of_an_append_target",
    "r27_shard_drops_a_column_as_another_begins",
    "r27_shard_drops_columns_in_the_first_batch",
    "r27_shard_retypes_in_the_first_batch",
    "r28_late_image_with_a_column_that_came_later",
    "r39_key_shift_over_two_batches",
    "r45_late_image_above_one_that_lacks_a_column",
)
WIDER = (
    "r29_base_comes_after_another_batch",
    "r30_soft_late_truncate_below_a_truncate",
    "r31_scd2_equal_version_that_comes_late",
    "r31_scd2_late_delete_below_a_delete",
    "r31_scd2_late_truncate_below_a_change",
    "r31_scd2_late_truncate_below_a_truncate",
    "r32_append_copies_the_lower_one_last",
    "r42_late_truncate_below_a_narrow_image",
    "r42_late_truncate_below_a_partial_image",
    "t17_late_version_above_another_case",
)
VERIFIED = "spark.databricks.delta.allFilesInCrc.verificationMode.forceOnNonUTC.enabled"
ADDED = {"_pos", "_event_time", "_source", "_source_table"}


class Finished(NamedTuple):
    """What stands after each batch, after a run with nothing new, after all was applied again."""

    gold: dict[int, dict[str, list[Row]]]
    log: dict[int, dict[str, list[Row]]]
    rejects: dict[str, list[Row]]
    ddl: dict[str, list[Row]]
    progress: list[dict[str, Row]]
    history: dict[str, list[Row]]
    idle: list[str]
    log_after_idle: dict[str, list[Row]]
    replayed: dict[str, dict[str, list[Row]]]
    rejects_replayed: dict[str, list[Row]]
    held: int
    laboratory: Laboratory


def _snapshot_scenario(folder: Path) -> None:
    """KEYS stream events, a delete of key 7, then a snapshot of them all and one more."""

    def line(op: str, pos: int, key: int) -> str:
        image = {"id": key, "x": f"{op}{key}"}
        source = {
            **{"connector": "mysql", "db": "merge", "table": SNAPSHOT},
            **{"file": "bin.1", "pos": pos, "row": 0, "ts_ms": 1_700_000_000_000 + pos},
            "snapshot": "true" if op == "r" else "false",
        }
        before, after = (image, None) if op == "d" else (None, image)
        return json.dumps({"op": op, "before": before, "after": after, "source": source})

    place = folder / SNAPSHOT
    place.mkdir(parents=True)
    columns = "columns: {id: int, x: string}"
    (place / "table.yml").write_text(f"source: {{keys: {{merge.{SNAPSHOT}: [id]}}}}\n{columns}\n")
    batches = (
        [line("c", key, key) for key in range(KEYS)],
        [line("d", KEYS + 1, 7)],
        [line("r", KEYS + 2, key) for key in range(KEYS + 1)],
    )
    for number, lines in enumerate(batches, 1):
        (place / f"{number}.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def abroad(spark: SparkSession) -> Iterator[SparkSession]:
    """The session in a zone that has an hour twice, as a platform's own may be: nothing depends on
    it."""
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    # Outside UTC Delta reads its whole log again at each commit, to compare it with its checksum.
    spark.conf.set(VERIFIED, "false")
    yield spark
    spark.conf.unset(VERIFIED)
    spark.conf.set("spark.sql.session.timeZone", before)


def _asked_for(items: Sequence[pytest.Item]) -> set[str]:
    """The scenarios that the chosen tests look at; some look at all that are not slow."""
    names: set[str] = set()
    for item in items:
        if item.path == Path(__file__):
            given = item.callspec.params if hasattr(item, "callspec") else {}
            one = given.get("scenario", given.get("name"))
            if one is None:
                names |= {SNAPSHOT, *(each.name for each in SCENARIOS if not each.slow)}
            else:
                names.add(one.name if isinstance(one, Scenario) else one)
    return names


def _replayed(items: Sequence[pytest.Item]) -> set[str]:
    """The scenarios that the chosen tests want to see again once progress is lost."""
    here = [item for item in items if item.path == Path(__file__) and hasattr(item, "callspec")]
    params = [item.callspec.params for item in here]
    return {given["name"] for given in params if given.keys() == {"name", "lost"}}


@pytest.fixture(scope="module")
def finished(
    abroad: SparkSession,
    short_spans: None,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Finished:
    """The scenarios that are asked for, run to the end."""
    root = tmp_path_factory.mktemp("merge")
    _snapshot_scenario(root / "made")
    asked = _asked_for(request.session.items)
    of_all = (*SCENARIOS, *scenarios(root / "made"))
    played = [scenario for scenario in of_all if scenario.name in asked]
    laboratory = Laboratory(root, abroad, played)
    names = [scenario.name for scenario in laboratory.played]
    queries = abroad._jsc.sc().dagScheduler().activeQueryToJobs()
    before = queries.size()
    gold, log = {}, {}
    for number in range(1, ROUNDS + 1):
        laboratory.land(number)
        laboratory.decode()
        laboratory.merge()
        gold[number] = {name: laboratory.rows(name) for name in names}
        log[number] = {name: laboratory.log(name) for name in names}
    rejects, ddl, progress = laboratory.rejects(), laboratory.ddl(), laboratory.progress()
    history = {
        scenario.name: laboratory.history(scenario.name)
        for scenario in _with("history")
        if scenario.name in names
    }
    idle = [merged.target for merged in laboratory.merge() if merged.error is None]
    log_after_idle = {name: laboratory.log(name) for name in names}
    replayed = {}
    again = sorted(_replayed(request.session.items))
    for lost, forget in (("silver", laboratory.forget_silver), ("gold", laboratory.forget_gold)):
        if again:
            forget()
            laboratory.decode()
            assert {row.target for row in laboratory.merge(again)} == set(again)
        replayed[lost] = {name: laboratory.rows(name) for name in again}
    if again:
        laboratory.remember_gold()
    return Finished(
        held=queries.size() - before,
        gold=gold,
        log=log,
        rejects=rejects,
        ddl=ddl,
        progress=progress,
        history=history,
        idle=idle,
        log_after_idle=log_after_idle,
        replayed=replayed,
        rejects_replayed=laboratory.rejects(),
        laboratory=laboratory,
    )


def _narrowed(rows: list[Row], expected: list[Row]) -> list[Row]:
    """Of each row the columns that its counterpart names."""
    if len(rows) != len(expected):
        return rows
    return [{name: row.get(name) for name in e} for row, e in zip(rows, expected, strict=True)]


def _told(rows: list[Row], expected: list[Row]) -> list[Row]:
    """Without what gold adds to every row, unless the scenario tells it."""
    told = {name for row in expected for name in row}
    return [{n: v for n, v in row.items() if n not in ADDED or n in told} for row in rows]


def _with(name: str) -> list[Scenario]:
    """The scenarios that have a file `<name>.jsonl`."""
    return [scenario for scenario in SCENARIOS if scenario.expected(name) is not None]


def _each(some: Sequence[Scenario]) -> pytest.MarkDecorator:
    """A test for each of these scenarios."""
    params = [
        pytest.param(each, id=each.name, marks=[pytest.mark.slow] * each.slow) for each in some
    ]
    return pytest.mark.parametrize("scenario", params)


@_each(SCENARIOS)
def test_gold(finished: Finished, scenario: Scenario) -> None:
    for number in range(1, ROUNDS + 1):
        expected = scenario.expected("gold" if number == ROUNDS else f"gold.{number}")
        if expected is not None:
            assert _told(finished.gold[number][scenario.name], expected) == expected, number


@_each(SCENARIOS)
def test_rejects(finished: Finished, scenario: Scenario) -> None:
    expected = scenario.expected("rejects") or []
    assert _narrowed(finished.rejects.get(scenario.name, []), expected) == expected


@_each(SCENARIOS)
def test_ledger(finished: Finished, scenario: Scenario) -> None:
    expected = scenario.expected("ddl") or []
    assert _narrowed(finished.ddl.get(scenario.name, []), expected) == expected


@_each(_with("history"))
def test_history(finished: Finished, scenario: Scenario) -> None:
    expected = scenario.expected("history") or []
    assert _narrowed(finished.history[scenario.name], expected) == expected


@_each(SCENARIOS)
def test_progress(finished: Finished, scenario: Scenario) -> None:
    got = [round_[scenario.name] for round_ in finished.progress if scenario.name in round_]
    well = {"status": "ok", "error": None}
    expected = [
        row if row.get("status") == "parked" else well | row
        for row in scenario.expected("progress") or [{} for _ in got]
    ]
    assert _narrowed(got, expected) == expected


def test_spark_lets_go_of_the_queries_that_ran(finished: Finished) -> None:
    """Targets are merged side by side, some thousand queries in all: what the scheduler still holds
    of one it holds for ever, with its plans."""
    assert finished.held < 20


def test_who_looks_for_one_table_in_silver_passes_over_files_that_lack_it(
    finished: Finished,
) -> None:
    of_many = []
    for path in finished.laboratory.warehouse.folder("silver", "cdc").rglob("*.parquet"):
        file = ParquetFile(path)
        if len(file.read(["table"]).column("table").unique()) > 4:
            group = file.metadata.row_group(0)
            columns = map(group.column, range(group.num_columns))
            of_many.append({c.path_in_schema for c in columns if c.has_dictionary_page})
    assert of_many
    assert all({"db", "table"} <= dictionaries for dictionaries in of_many)


def test_49_a_snapshot_after_the_stream_folds_only_what_a_delete_names(finished: Finished) -> None:
    record = [round_[SNAPSHOT] for round_ in finished.progress if SNAPSHOT in round_]
    assert [(row["inserted"], row["keys_refolded"]) for row in record] == [
        (KEYS, 0),
        (0, 0),
        (1, 1),
    ]
    rows = {row["id"]: row["x"] for row in finished.gold[ROUNDS][SNAPSHOT]}
    stream = {key: f"c{key}" for key in range(KEYS) if key != 7}
    assert rows == {**stream, KEYS: f"r{KEYS}"}


@pytest.mark.parametrize("name", ["r38_skipped_no_op_beats_a_late_update", "t28_no_op_update"])
def test_38_what_changes_nothing_rewrites_no_file(finished: Finished, name: str) -> None:
    written = [
        [action["add"]["path"] for action in finished.log[number][name] if "add" in action]
        for number in range(1, ROUNDS + 1)
    ]
    assert len(written[0]) == 1
    assert written == [written[0]] * ROUNDS


def test_a_run_with_nothing_new_writes_nothing(finished: Finished) -> None:
    assert finished.idle == []
    assert finished.log_after_idle == finished.log[ROUNDS]


def test_history_makes_the_same(finished: Finished) -> None:
    """Versions of shards and of many columns, a table that a column orders, rows that were there
    twice."""
    assert finished.laboratory.differing(REMADE) == {}


@pytest.mark.slow
def test_made_anew_beside_changes_that_wait(finished: Finished) -> None:
    """For a key that another source table's row holds (27)."""
    laboratory, name = finished.laboratory, "r27_shard_key_conflict_that_stays"
    warehouse = laboratory.warehouse
    rebuild(warehouse, known_targets(warehouse).fed[name])
    assert laboratory.rows(name) == finished.gold[ROUNDS][name]
    waiting = [{"code": "shard_key_conflict", "status": "open"}]
    assert _narrowed(laboratory.rejects()[name], waiting) == waiting


def test_what_is_odd_is_met_whatever_is_asked_of_history(finished: Finished) -> None:
    """Two deliveries of one event, which SQL alone cannot tell apart: also who only counts rows is
    given those of the exact fold."""
    laboratory, name = finished.laboratory, "r43_redelivery_of_a_tied_event"
    warehouse = laboratory.warehouse
    target = known_targets(warehouse).fed[name]
    progress = progress_of(warehouse, target.source, name)
    asked: list[str] = []

    def counted(rows: str) -> int:
        asked.append(rows)
        return int(warehouse.session.sql(f"SELECT count(*) FROM ({rows})").collect()[0][0])

    with as_applied(warehouse, target, progress) as reconstruction:
        assert reconstruction.tried(counted) == len(finished.gold[ROUNDS][name])
    assert len(asked) == 2


@pytest.mark.long
def test_history_makes_the_same_of_all(finished: Finished) -> None:
    made = [name for name, rows in finished.gold[ROUNDS].items() if rows]
    assert finished.laboratory.differing(made) == {}


@pytest.mark.parametrize("lost", ["silver", "gold"])
@pytest.mark.parametrize(
    "name", [*REPLAYED, *(pytest.param(name, marks=pytest.mark.slow) for name in REPLAYED_TOO)]
)
def test_13_progress_lost(finished: Finished, name: str, lost: str) -> None:
    assert finished.replayed[lost][name] == finished.gold[ROUNDS][name]
    assert finished.rejects_replayed.get(name) == finished.rejects.get(name)


@pytest.mark.slow
def test_runs_killed_before_they_record_progress(
    abroad: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the ledger calls applied by then, a column that the data brought among it, is new to
    progress all the same; which source tables feed a target is not known yet."""
    played = [scenario for scenario in SCENARIOS if scenario.name in KILLED]
    laboratory = Laboratory(tmp_path, abroad, played)
    for number in range(1, ROUNDS + 1):
        laboratory.land(number)
        laboratory.decode()
        for source in laboratory.config.sources:
            with monkeypatch.context() as patch:
                patch.setattr("pipelines.gold.run.record_progress", _killed)
                with pytest.raises(Killed):
                    laboratory.merge(sources=[source])
        laboratory.begin_again()
        laboratory.merge()
        for scenario in played:
            expected = scenario.expected("gold" if number == ROUNDS else f"gold.{number}")
            if expected is not None:
                found = _told(laboratory.rows(scenario.name), expected)
                assert found == expected, (scenario.name, number)


@pytest.mark.slow
def test_a_batch_that_was_applied_comes_again_with_more(
    abroad: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second round's run is killed before it records progress: the third applies both rounds,
    to a target that holds what the second left, and no trace of what that did not write."""
    played = [scenario for scenario in SCENARIOS if scenario.name in WIDER]
    laboratory = Laboratory(tmp_path, abroad, played)
    for number in range(1, ROUNDS + 1):
        laboratory.land(number)
        laboratory.decode()
        for source in laboratory.config.sources if number == 2 else ():
            with monkeypatch.context() as patch:
                patch.setattr("pipelines.gold.run.record_progress", _killed)
                with pytest.raises(Killed):
                    laboratory.merge(sources=[source])
        laboratory.begin_again()
        if number != 2:
            laboratory.merge()
    expected = {scenario.name: scenario.expected("gold") or [] for scenario in played}
    found = {name: _told(laboratory.rows(name), rows) for name, rows in expected.items()}
    assert found == expected
    for scenario in played:
        rejects = scenario.expected("rejects") or []
        assert _narrowed(laboratory.rejects().get(scenario.name, []), rejects) == rejects


class Killed(Exception):
    """The end of a process, as far as the tables show it."""


def _killed(*_: object) -> None:
    raise Killed


def test_78_history_that_is_not_found_is_no_reason_to_delete(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late changes of a row that is there and of one that was deleted, looked up by a wrong hash.
    The last test here: it goes a step further."""
    name, laboratory = "r79_integer_keys", finished.laboratory
    before = laboratory.rows(name)
    laboratory.land(ROUNDS + 1)
    laboratory.decode()
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.apply.prior_images.hash_values", lambda values: 1)
        [merged] = laboratory.merge([name])
    assert merged.error is not None and "a fault of the lookup" in merged.error
    assert laboratory.rows(name) == before
    [merged] = laboratory.merge([name])
    assert merged.error is None
    assert {row["id"]: (row["x"], row["y"]) for row in laboratory.rows(name)} == {
        row["id"]: (row["x"], "6" if row["id"] == 8 else row["y"]) for row in before
    }
