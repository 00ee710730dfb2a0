"""What is said of an error that nobody foresaw: one line, with what is at the root of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ingest.errors import IngestError
from pipelines.platform.failures import described, described_of

JVM = """org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient
\tat org.apache.kafka.clients.admin.KafkaAdminClient.createInternal(KafkaAdminClient.java:551)
Caused by: org.apache.kafka.common.KafkaException: Failed to load the login
\tat org.apache.kafka.common.network.SaslChannelBuilder.configure(SaslChannelBuilder.java:184)
Caused by: java.lang.IllegalArgumentException: JAAS config entry not terminated by semi-colon
\t... 8 more"""
WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
ValueError: nobody foresaw this
"""


class Py4JJavaError(Exception):
    """As py4j raises it: the text says nothing, the trace all."""

    def getStackTrace(self) -> str:
        return JVM


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            Py4JJavaError("An error occurred while calling o373.collectToPython."),
            "unexpected Py4JJavaError: An error occurred while calling o373.collectToPython. "
            "(IllegalArgumentException: JAAS config entry not terminated by semi-colon); "
            "INGEST_DEBUG=1 shows where",
        ),
        (
            RuntimeError(WORKER),
            "unexpected RuntimeError: ValueError: nobody foresaw this; INGEST_DEBUG=1 shows where",
        ),
        (KeyError(), "unexpected KeyError: no more is known; INGEST_DEBUG=1 shows where"),
        (IngestError("source shop: nobody answers"), "source shop: nobody answers"),
    ],
)
def test_the_root_is_said(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("INGEST_DEBUG", raising=False)
    monkeypatch.delattr("pipelines.platform.session.LOG", raising=False)
    assert described(error) == said
    assert capsys.readouterr().err == ""


def test_where_it_came_from_is_printed_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of our own errors too."""
    monkeypatch.setenv("INGEST_DEBUG", "1")
    for error in (IngestError("nobody answers"), RuntimeError("odd")):
        assert "INGEST_DEBUG" not in described(error)
        assert f"{type(error).__name__}: {error}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["it is gone", "source shop: it is gone", "source shop it is gone"]
)
def test_what_an_error_met_is_said_once(text: str) -> None:
    assert described_of("source shop", IngestError(text)) == "source shop: it is gone"


GONE = (
    "Spark's JVM was killed (SIGKILL), as a machine short of memory does it, and everything else "
    "failed with it; Spark's log is {log}; run again: what was begun is finished then, nothing is "
    "lost or doubled\n"
)
KILLING = """
import sys
from pyspark import SparkContext
from pipelines.cli.app import main
from pipelines.runs import sources

ingest_source = sources.ingest_source

def killed(*of, **more):
    brought = ingest_source(*of, **more)
    if sys.argv[2] == "at work" or not brought.messages:
        SparkContext._gateway.proc.kill()
    return brought

sources.ingest_source = killed
main(["--conf", sys.argv[1], "run", "--continuous"])
"""


@pytest.mark.spark
@pytest.mark.parametrize("when", ["at work", pytest.param("at rest", marks=pytest.mark.slow)])
def test_a_run_ends_when_its_jvm_is_gone(tmp_path: Path, when: str) -> None:
    """Each later call would fail, each with another error. What there is to know is said once, and
    a run that goes on ends too, so that whoever looks after it starts it again; not only when the
    next message comes."""
    (tmp_path / "conf/sources").mkdir(parents=True)
    source = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl'}\n"
    (tmp_path / "conf/sources/shop.yml").write_text(source)
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/1.jsonl").write_text("no message\n")
    command = [sys.executable, "-c", KILLING, str(tmp_path / "conf"), when]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    gone = GONE.format(log=tmp_path / "warehouse/_spark.log")
    assert (done.returncode, done.stderr.endswith(gone)) == (1, True), done.stderr
    assert done.stderr.startswith("run: bronze shop: 1 message\n")
    assert "Traceback" not in done.stderr
