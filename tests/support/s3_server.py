"""An S3 server for tests: moto's, in a process of its own, and what Spark needs to read from it and
to write to it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from pipelines.platform.jars import fetch
from tests.support.kafka_broker import _free_ports
from tests.support.project import Project

ROOT = Path(__file__).parents[2]
LOCK = Path(__file__).with_name("s3.jars")
STARTS_WITHIN = 60.0  # seconds; about 3 on two idle cores
KEYS = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "s3cret-of-reader"}
"""The server takes any."""
# Statements, then commands, of one Spark; each command is followed by its exit code.
COMMANDS = """
import json, sys
from pathlib import Path

folder, statements, commands = map(json.loads, sys.argv[1:])
if statements:
    from pipelines.platform.session import spark

    for statement in statements:
        spark(warehouse=Path(folder)).sql(statement)
from pipelines.cli.app import main

for words in commands:
    try:
        main(words)
        code = 0
    except SystemExit as end:
        code = end.code
    for stream in (sys.stdout, sys.stderr):
        print(f"== {code}", file=stream, flush=True)
"""


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Runs a server without buckets; gives its address.

    Raises:
        RuntimeError: it ended or did not listen in time; holds the end of its log.
    """
    (port,) = _free_ports(1)
    log = folder / "s3.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=output,
            stderr=output,
        )
    try:
        _wait_for(process, port, log=log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def client(address: str) -> Any:
    """A client of the server, with which tests fill it."""
    key, secret = KEYS.values()
    return boto3.client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
    )


def settings(address: str) -> Mapping[str, str]:
    """What a Spark that reads from the server is started with, credentials aside."""
    return {
        "spark.jars": ",".join(map(str, fetch(LOCK))),
        "spark.hadoop.fs.s3a.endpoint": address,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }


def commands(
    project: Project, *several: Sequence[str], statements: Sequence[str] = ()
) -> list[tuple[int, str, str]]:
    """The exit code and both outputs of each of `several` commands, of one Spark that is started
    with the project's `spark-defaults.conf` and runs the SQL `statements` first."""
    words = [["--conf", str(project.folder / "conf"), *one] for one in several]
    kept = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    given = [str(project.folder / "warehouse"), list(statements), words]
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, *map(json.dumps, given)],
        cwd=ROOT,
        env={**kept, **KEYS, "SPARK_CONF_DIR": str(project.folder)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    parts = [text.split("== ") for text in (done.stdout, done.stderr)]
    assert len(parts[0]) == len(several) + 1, done.stderr[-4000:]
    printed = [[part.partition("\n")[2] for part in ["\n" + own[0], *own[1:]]] for own in parts]
    codes = [int(part.partition("\n")[0]) for part in parts[0][1:]]
    return list(zip(codes, printed[0], printed[1], strict=False))


def _wait_for(process: subprocess.Popen[bytes], port: int, *, log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as knocking:
            if knocking.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise RuntimeError(f"the S3 server did not start within {STARTS_WITHIN:.0f} s:\n{end}")
