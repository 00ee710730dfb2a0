"""The tasks of the bundle's jobs call the command as the platform does, with arguments it knows."""

import importlib
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
BUNDLE = ROOT / "conf" / "bundle"


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for file in ("jobs.yml", "upkeep.yml"):
        found |= YAML(typ="safe").load(BUNDLE / file)["resources"]["jobs"]
    return found


@pytest.fixture
def main() -> Callable[[], object]:
    """The function behind the console script, which the platform calls itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = project["scripts"]["ingest"].partition(":")
    if not (ROOT / module.replace(".", "/")).with_suffix(".py").exists():
        pytest.skip(f"there is no {module}")
    found: Callable[[], object] = getattr(importlib.import_module(module), function)
    return found


def test_both_jobs_run_the_same_wheel_tasks(jobs: dict[str, Any]) -> None:
    serverless, cluster = (
        [task["python_wheel_task"] for task in jobs[name]["tasks"]]
        for name in ("ingest_serverless", "ingest_cluster")
    )
    assert serverless == cluster


def test_paths_of_the_wheel_lead_from_their_file_to_the_build_folder(jobs: dict[str, Any]) -> None:
    artifacts = YAML(typ="safe").load(BUNDLE / "artifacts.yml")["artifacts"]
    assert (BUNDLE / artifacts["wheel"]["path"]).resolve() == ROOT
    wheels = [
        wheel
        for name in ("ingest_serverless", "ingest_maintain", "ingest_checks", "ingest_ops")
        for wheel in jobs[name]["environments"][0]["spec"]["dependencies"]
    ]
    wheels += [
        task["libraries"][0]["whl"]
        for name in ("ingest_cluster", "ingest_continuous")
        for task in jobs[name]["tasks"]
    ]
    assert [(BUNDLE / wheel).resolve() for wheel in wheels] == [ROOT / "dist" / "*.whl"] * 8


@pytest.mark.parametrize(
    ("job", "position"),
    [
        *((job, place) for job in ("ingest_serverless", "ingest_cluster") for place in range(3)),
        *((job, 0) for job in ("ingest_continuous", "ingest_maintain", "ingest_checks")),
    ],
)
def test_parameters_are_understood(
    jobs: dict[str, Any],
    main: Callable[[], object],
    job: str,
    position: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--help at their end stops short of the work, but not of an unknown verb or option."""
    task = jobs[job]["tasks"][position]
    parameters = task["python_wheel_task"]["parameters"]
    monkeypatch.setattr(sys, "argv", ["ingest", *parameters, "--help"])
    main()
    assert task["task_key"] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ("status --help", "where each source and each table stands"),
        ("upgrade --help", "ingest upgrade"),
        ("ddl approve 7728b07 --by ada --why 'agreed with the shop' --help", "ddl approve"),
    ],
)
def test_the_arguments_of_the_ops_job_are_taken_apart(
    jobs: dict[str, Any],
    main: Callable[[], object],
    arguments: str,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = jobs["ingest_ops"]
    [given] = job["parameters"]
    assert given == {"name": "arguments", "default": "status"}
    parameters = [
        arguments if text == "{{job.parameters.arguments}}" else text
        for text in job["tasks"][0]["python_wheel_task"]["parameters"]
    ]
    monkeypatch.setattr(sys, "argv", ["ingest", *parameters])
    main()
    assert printed in capsys.readouterr().out


@pytest.mark.parametrize(
    "parameters", [["--config", "conf", "bronze", "--help"], ["--conf", "conf", "brass", "--help"]]
)
def test_parameters_that_are_not_understood_fail_the_task(
    main: Callable[[], object], parameters: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform ignores what the function returns: only what it raises fails a task."""
    monkeypatch.setattr(sys, "argv", ["ingest", *parameters])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2


def test_success_returns(main: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """To the platform SystemExit is a failure, even with 0 (azure-docs issue 116964)."""
    monkeypatch.setattr(sys, "argv", ["ingest", "formats"])
    main()
