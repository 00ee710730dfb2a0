"""Files in an object store: a real S3 protocol, by Hadoop's s3a file system."""

from __future__ import annotations

import glob
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.bronze.hadoop_files import Entry, entering
from pipelines.bronze.listing import _matcher
from pipelines.platform.object_stores import refusal
from tests.support.project import Project, canal
from tests.support.s3_server import client, commands, s3_server, settings

SOURCE = "name: {name}\nformat: canal\nfiles: {{path: '{path}', order: path}}\n"


def changes(*numbers: int) -> bytes:
    """Messages of inserted rows."""
    rows = ({"id": str(n), "name": "pen", "price": "1.10"} for n in numbers)
    sent = [canal("item", "INSERT", row, es=1_700_000_000_000, id_=1) for row in rows]
    return b"".join(json.dumps(message).encode() + b"\n" for message in sent)


@pytest.mark.slow
def test_files_of_a_bucket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = Project(tmp_path, capsys.readouterr)
    bucket, other = "landing", "s3a://locked/*.jsonl"
    shop = SOURCE.format(name="shop", path=f"s3a://{bucket}/in/**/*.jsonl*")
    project.write("conf/sources/shop.yml", shop)
    with s3_server(tmp_path) as address:
        store = client(address)
        for name in (bucket, "locked"):
            store.create_bucket(Bucket=name)
        files = {
            "in/day=1/a b%20[x].jsonl": changes(1, 2),
            "in/day=2/c.jsonl.gz": gzip.compress(changes(3)),
            "in/_hidden.jsonl": changes(99),
            "in/d.txt": changes(99),
            "other/e.jsonl": changes(99),
        }
        for key, body in files.items():
            store.put_object(Bucket=bucket, Key=key, Body=body)
        refused = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        given: dict[str, Any] = {
            **settings(address),
            "spark.hadoop.fs.s3a.bucket.locked.aws.credentials.provider": refused,
        }
        defaults = "".join(f"{name} {value}\n" for name, value in given.items())
        project.write("spark-defaults.conf", defaults)
        query = ("sql", "SELECT id FROM gold.shop_item ORDER BY id", "--json")
        topics = "SELECT DISTINCT topic FROM bronze.messages ORDER BY topic"
        ran, found, read, again = commands(
            project, ("run",), query, ("sql", topics, "--json"), ("run",)
        )
        assert (ran[0], again[0]) == (0, 0), ran[2] + again[2]
        assert [json.loads(line)["id"] for line in found[1].splitlines()] == [1, 2, 3]
        assert [json.loads(line)["topic"] for line in read[1].splitlines()] == [
            f"s3a://{bucket}/in/day=1/a b%20[x].jsonl",
            f"s3a://{bucket}/in/day=2/c.jsonl.gz",
        ]
        for name, path in (
            *(("nobody", other), ("nowhere", "s3a://nowhere/*.jsonl")),
            *(("empty", f"s3a://{bucket}/none/*.jsonl"), ("unknown", "hopla://x/*.jsonl")),
        ):
            project.write(f"conf/sources/{name}.yml", SOURCE.format(name=name, path=path))
        tried, ran, found = commands(project, ("validate", "--connect"), ("run",), query)
    said = tried[2]
    assert (tried[0], ran[0]) == (1, 1), said
    assert "source nobody: reads s3a://locked/*.jsonl: no credentials for s3a://locked" in said
    assert "source nowhere: reads s3a://nowhere/*.jsonl: there is no bucket s3a://nowhere" in said
    assert "source empty: reads s3a://landing/none/*.jsonl, but there is no" in said
    assert "source unknown: reads hopla://x/*.jsonl: this Spark cannot read hopla://" in said
    assert f"source shop: 2 files of s3a://{bucket}/in/**/*.jsonl*" in tried[1]
    assert [json.loads(line)["id"] for line in found[1].splitlines()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*.jsonl", [], ["a", "a/b"]),
        ("*/*.jsonl", ["a", "b c"], ["a/b"]),
        ("day=*/x?/*.jsonl", ["day=1", "day=1/x1"], ["other", "day=1/y1", "day=1/x1/z"]),
        ("day=*/**/*.jsonl", ["day=1", "day=1/y", "day=1/y/z"], ["other", "other/day=1"]),
        ("**/*.jsonl", ["a", "a/b/c"], []),
    ],
)
def test_folders_are_entered_where_the_pattern_can_match(
    pattern: str, inside: list[str], outside: list[str]
) -> None:
    parts = pattern.split("/")
    enter = entering([None if "**" in part else _matcher(part).fullmatch for part in parts])
    assert [below for below in [*inside, *outside] if enter(below)] == inside


@pytest.mark.parametrize(
    "pattern",
    [
        *("[^a]1", "[!a]1", "[a-b]1", "[b-a]1", "[]a]1", "[!]a]1", "[a", "[]", "[a-]1", "[--a]1"),
        *("[[]1", "{a,b}1", "?1", "*", "**", "a**", "**1", "**/*1", "d/**", "d/**/*1", "d*1"),
        *("d[/]a1", "d?a1", "***", "d/***1", "[\\\\]1", "[a&&b]1", "**/e/**/a1"),
    ],
)
def test_a_pattern_matches_in_a_bucket_what_it_does_on_a_disk(tmp_path: Path, pattern: str) -> None:
    names = ["a1", "b1", "^1", "]1", "-1", "[1", "\\1", "&1", "ab", "[a", "[]", "{a,b}1", "a"]
    names += ["d/a1", "d/b", "d/e/a1", "d/e/f/a1", "d1"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = glob.glob(pattern, root_dir=tmp_path, recursive=True)
    on_disk = {name for name in found if (tmp_path / name).is_file()}
    assert {
        name for name in names if _matcher(f"s3a://b/{pattern}").fullmatch(f"s3a:/b/{name}")
    } == (on_disk)


@pytest.mark.parametrize(
    ("name", "hidden"),
    [("a", False), ("_a", True), (".a", True), ("_p=1", False), (".p=1", True), ("a_", False)],
)
def test_what_spark_hides(name: str, hidden: bool) -> None:
    assert Entry(f"s3a://b/{name}", False, 0, 0).hidden == hidden


@pytest.mark.parametrize(
    ("uri", "error", "said"),
    [
        ("s3a://b/in/", 'No FileSystem for scheme "s3a"', "package org.apache.hadoop:hadoop-aws"),
        ("s3://b/in/", 'No FileSystem for scheme "s3"', "write s3a://, Hadoop's name"),
        ("abfss://c@a/x/", "No FileSystem for scheme", "package org.apache.hadoop:hadoop-azure"),
        ("s3a://b/in/", "UnknownStoreException: b", "there is no bucket s3a://b"),
        ("s3a://b/in/", "AccessDenied (Status Code: 403)", "s3a://b refuses the credentials"),
        ("s3a://b/in/", "NoAwsCredentialsException", "no credentials for s3a://b were found"),
        ("gs://b/in/", "it rains", "gs://b cannot be read: it rains"),
    ],
)
def test_a_store_that_does_not_answer(uri: str, error: str, said: str) -> None:
    text = refusal(uri, RuntimeError(error))
    assert said in text and "\n" not in text
