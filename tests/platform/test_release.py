"""What a release has to be: its contents, its metadata and its bill of materials."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def contents(release: ModuleType, more: Mapping[str, bytes]) -> dict[str, bytes]:
    return {**dict.fromkeys(release.NEEDED, b""), **more}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"tests/formats/x.jsonl": b""}, "got tests/formats/x.jsonl"),
        ({"ingest/__pycache__/a.pyc": b""}, "a.pyc"),
        ({"pipelines/.env": b""}, "pipelines/.env"),
        ({"ingest/a.py": b"key = 'AKIAIOSFODNN7EXAMPLE'"}, "what looks like one in ingest/a.py"),
        ({"ingest/b.py": b"-----BEGIN RSA PRIVATE KEY-----"}, "looks like one in ingest/b.py"),
    ],
)
def test_what_does_not_belong_in_a_release(
    release: ModuleType, more: dict[str, bytes], said: str
) -> None:
    release.check_contents(contents(release, {}), release.OF_WHEEL, ())
    with pytest.raises(release.Broken, match=said):
        release.check_contents(contents(release, more), release.OF_WHEEL, ())


def test_what_is_missing_is_named(release: ModuleType) -> None:
    held = contents(release, {})
    del held["pipelines/py.typed"]
    with pytest.raises(release.Broken, match=r"expected pipelines/py\.typed in it"):
        release.check_contents(held, release.OF_WHEEL, ())


def test_metadata_version_and_changes_belong_together(release: ModuleType) -> None:
    text = (
        "Metadata-Version: 2.4\nName: delta-cdc-ingest\nVersion: {}\nLicense-Expression: "
        "Apache-2.0\n"
        "Requires-Python: >=3.11\nDescription-Content-Type: text/markdown\n\nVersion: none\n"
    )
    release.check_metadata(text.format("1.2.3"), "1.2.3", "# Changes\n\n## 1.2.3\n")
    for version, changes, said in (
        ("1.2", "\n## 1.2\n", "semantic"),
        ("1.2.3", "\n## 1.2.2\n", "section"),
    ):
        with pytest.raises(release.Broken, match=said):
            release.check_metadata(text.format(version), version, changes)
    with pytest.raises(release.Broken, match="got Version: 1"):
        release.check_metadata(text.format("1"), "1.2.3", "")


def test_the_bill_names_every_dependency_with_licence_and_hash(release: ModuleType) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    parts = release.closure(extras)
    assert {"click", "pyspark", "py4j", "pygal", "pika", "psycopg"} <= parts.keys()
    assert not {"pytest", "ruff", "mypy"} & parts.keys()
    bill: dict[str, Any] = json.loads(json.dumps(release.bill("0.1.0", parts)))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    refs = [part["bom-ref"] for part in bill["components"]]
    assert len(set(refs)) == len(refs)
    assert bill["dependencies"] == [{"ref": "delta-cdc-ingest", "dependsOn": refs}]
    for part in bill["components"]:
        assert part["purl"].partition("@")[2] == part["version"]
        assert all(len(each["content"]) == 64 for each in part["hashes"]) and part["hashes"]
        assert part["licenses"][0]["license"]["name"]
    assert any(ref.startswith("pkg:maven/io.delta/delta-spark_") for ref in refs)


def test_a_jar_whose_licence_nobody_looked_up_stops_a_release(
    release: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    licences = {group: name for group, name in release.JAR_LICENCES.items() if group != "io.delta"}
    monkeypatch.setattr(release, "JAR_LICENCES", licences)
    with pytest.raises(release.Broken, match=r"expected JAR_LICENCES to name that of io\.delta"):
        release.bill("0.1.0", {})
