"""An S3 server for tests: moto's, in a process of its own, and what Spark needs to read from it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from pipelines.platform.jars import fetch
from tests.support.kafka_broker import _free_ports

LOCK = Path(__file__).with_name("s3.jars")
STARTS_WITHIN = 60.0  # seconds; about 3 on two idle cores
KEYS = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "s3cret-of-reader"}
"""The server takes any."""


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


def _wait_for(process: subprocess.Popen[bytes], port: int, *, log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as knocking:
            if knocking.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise RuntimeError(f"the S3 server did not start within {STARTS_WITHIN:.0f} s:\n{end}")
