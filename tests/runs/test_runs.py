"""A run that did something, or ended otherwise than the one before it, is a row of gold._runs."""

from __future__ import annotations

import getpass
import json
import socket
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.runs import run, sources
from pipelines.telemetry import activity
from pipelines.telemetry.activity import Activity, ChangeTimes, Totals
from pipelines.telemetry.latency import QUANTILES, Latency
from pipelines.telemetry.runs import ERROR_LONGEST, ERRORS_MOST, RUNS
from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("as_shipped")

SOURCE = """
name: shop
format: canal
kafka: {{bootstrap_servers: '{server}', topics: [t], options: {{sasl.jaas.config: '{jaas}'}}}}
"""
FILES = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl', order: path}\n"
ITEM = {"id": "1", "name": "pen", "price": "1.10"}


def _captured(message: dict[str, Any] | str, offset: int, *, at: int) -> dict[str, Any]:
    """A message of a topic as `kcat -J` prints it, that arrived `at` so many milliseconds."""
    payload = message if isinstance(message, str) else json.dumps(message)
    return {"topic": "t", "partition": 0, "offset": offset, "ts": at, "payload": payload}


def test_a_run_is_a_row(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = Project(tmp_path, capsys.readouterr)

    def rows() -> list[dict[str, Any]]:
        return project.ingest("sql", "--json", "SELECT * FROM gold._runs ORDER BY started").records

    now = int(datetime.now(UTC).timestamp() * 1000)
    item = canal("item", "INSERT", ITEM, es=now - 60_000, id_=1)
    misfit = canal("item", "INSERT", {**ITEM, "id": "2", "price": "dear"}, es=now, id_=2)
    project.write("conf/sources/shop.yml", f"{FILES[:-2]}, framing: kcat}}\n")
    messages: list[dict[str, Any] | str] = [item, misfit, "no message"]
    sent = enumerate(messages)
    project.land("1.jsonl", [_captured(each, n, at=now - 600_000) for n, each in sent])
    assert project.ingest("run").code == 0
    [first] = rows()
    assert list(first) == [name for name, _, _ in RUNS]
    assert min(first["seconds"][stage] for stage in ("bronze", "silver", "gold")) > 0
    assert 60 * 0.9 < first["latency_p95"] < 600 and first["latency_p99"] >= first["latency_p95"]
    assert 600 * 0.9 < first["arrival_latency_p50"] < 1200
    assert first["arrival_latency_p50"] == first["arrival_latency_p99"]
    assert first["started"] < first["ended"]
    measured = ("run", "started", "ended", "seconds", *(n for n in first if "latency" in n))
    assert {name: value for name, value in first.items() if name not in measured} == {
        "part": 1,
        "verb": "run",
        "sources": ["shop"],
        "tables": None,
        "who": getpass.getuser(),
        "version": version("delta-cdc-ingest"),
        "host": socket.gethostname(),
        "passes": 2,
        "messages": 3,
        "rows": first["rows"],
        "events": 2,
        "rejects": 2,
        "merged": 1,
        "parked": 0,
        "outcome": "done",
        "exit_code": 0,
        "errors": [],
    }
    silver = project.ingest("sql", "--json", "SELECT count(*) AS n FROM silver.cdc").records
    assert silver == [{"n": first["rows"]}]
    # Nothing came: no row, however often one looks; but it is noted when that was.
    noted = tmp_path / "warehouse/_checkpoints/runs.json"
    before = noted.read_bytes()
    for _ in range(3):
        assert project.ingest("run").code == 0
    assert len(rows()) == 1 and noted.read_bytes() != before
    # Another outcome is news once, and so is its end. Secrets are in no row.
    jaas = 'x.LoginModule required username="a" password="s3cr3t-word";'
    project.write("conf/sources/shop.yml", SOURCE.format(server="127.0.0.1:1", jaas=jaas))

    def refused(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"login with {jaas} at http://me:s3cr3t-too@host failed")

    monkeypatch.setattr(sources, "ingest_source", refused)
    for _ in range(3):
        assert project.ingest("bronze").code == 1
    _, failed = rows()
    assert (failed["verb"], failed["outcome"], failed["exit_code"]) == ("bronze", "incomplete", 1)
    assert "s3cr3t" not in json.dumps(failed) and "[hidden]" in failed["errors"][0]
    # The columns say what they mean.
    described = project.ingest("sql", "--json", "DESCRIBE TABLE gold._runs").records
    assert [(c["col_name"], c["comment"]) for c in described] == [(n, text) for n, _, text in RUNS]


def test_a_continuous_run_writes_rows_at_its_cadence(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve passes, four of them with messages, and two cadences: two rows and that of the end."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", FILES)
    at_work = run.Run._pass
    passes: list[int] = []

    def one_pass(self: run.Run, **more: Any) -> bool:
        passes.append(len(passes) + 1)
        if (number := passes[-1]) % 3 == 1:
            row = {**ITEM, "id": str(number)}
            message = canal("item", "INSERT", row, es=number, id_=number)
            project.land(f"{number:02}.jsonl", [message])
        if number == 12:
            self._stop.ask()
        return at_work(self, **more)

    monkeypatch.setattr(run.Run, "_pass", one_pass)
    monkeypatch.setattr(run, "PAUSE", 0.0)
    monkeypatch.setattr(Activity, "due", property(lambda self: len(passes) in (2, 3, 5)))
    assert project.ingest("bronze", "--continuous").code == 0
    found = project.ingest("sql", "--json", "SELECT * FROM gold._runs ORDER BY part").records
    assert len({row["run"] for row in found}) == 1
    assert [(r["passes"], r["messages"], r["outcome"]) for r in found] == [
        (2, 1, "running"),
        (2, 1, "running"),
        (7, 2, "done"),
    ]


def test_percentiles_are_right_to_a_tenth() -> None:
    latency, second = Latency(), 1_000_000
    now = 1_700_000_000 * second
    times = [now - int(second * (1 + 99 * part)) for part in QUANTILES]
    latency.add(now, 100_050, times)
    assert latency.count == 100_050
    for part in (0.25, 0.5, 0.95, 0.99):
        found = latency.percentile(part)
        assert found is not None and abs(found / (1 + 99 * part) - 1) < 0.12
    assert sum(latency.below.values()) == 100_050
    # A clock ahead of this one's, a century, and nothing.
    latency.add(now, 3, [now + second, now - 10**9 * second * 3])
    assert len(latency._buckets) < 200
    latency.add(now, 5, [])
    assert latency.count == 100_053
    assert latency.since(latency.copy()).percentile(0.5) is None


def test_a_run_remembers_little_however_long_it_goes_on() -> None:
    at_work = Activity("run", sources=["shop"])
    done = Totals()
    for number in range(5_000):
        at_work.decoded([ChangeTimes(7, [number * 10**9], [number * 10**9 + 1])])
        if number >= 3_000:
            at_work.merged([("shop", f"t{number % 10}")])
        if number % 100 == 0:
            row = at_work.row(done, before=done, parked=0, exit_code=None, errors=[])
            assert row.merged <= 10
    assert at_work.latency.count == 7 * (activity._BATCHES_MOST + 1_999)
    assert at_work.arrival_latency.count == at_work.latency.count
    assert len(at_work.latency._buckets) < 200


def test_errors_of_a_row_are_bounded() -> None:
    from types import SimpleNamespace
    from typing import cast

    from pipelines.telemetry.runs import _values

    warehouse = cast(Any, SimpleNamespace(local=True))
    at_work = Activity("run", sources=["shop"])
    errors = [f"{n} " + "x" * 5_000 for n in range(500)]
    row = at_work.row(Totals(), before=Totals(), parked=0, exit_code=1, errors=errors)
    values = dict(zip((name for name, _, _ in RUNS), _values(warehouse, row), strict=True))
    assert len(values["errors"]) == ERRORS_MOST and values["errors"][-1] == "and 401 more"
    assert max(map(len, values["errors"])) == ERROR_LONGEST
