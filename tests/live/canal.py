"""Canal's own server, embedded: `python -m tests.live.canal CANAL.json`.

The file says where MariaDB is and the `landing` folder. What the server gives is turned into flat
messages by Canal's own code, one JSON object each, as its producer for Kafka sends them. Runs until
standard input is closed.

Source: https://github.com/alibaba/canal, canal-1.1.7: CanalServerWithEmbedded, CanalKafkaProducer
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipelines.platform.jars import fetch
from tests.live.capture import Capture
from tests.live.servers import Server, connect

ROOT = Path(__file__).parents[2]
LOCK = Path(__file__).with_name("canal.jars")
MEMORY = "-Xmx512m"
BATCH = 1_000  # entries of a batch: row events and statements
# Connector/J of 2019 and Canal's own serializers look into Java's classes.
_OPENED = ("java.base/java.lang", "java.base/java.util", "java.base/java.math")


@contextmanager
def canal(server: Server, folder: Path, landing: Path) -> Iterator[Path]:
    """Runs Canal for as long as the block lasts; gives its own log. Whatever the server does from
    now on comes to `landing`."""
    config, log = folder / "canal.json", folder / "canal.log"
    jars = [str(jar) for jar in fetch(LOCK)]
    told = {**server._asdict(), "landing": str(landing), "jars": jars}
    told["position"] = _end_of_log(server)
    config.write_text(json.dumps(told))
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.live.canal", str(config)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    try:
        yield log
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_of_log(server: Server) -> dict[str, Any]:
    """Where the server's log ends at this moment, as Canal writes a position."""
    with connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position = cursor.fetchone()[:2]
    return {"journalName": file, "position": position}


def _run(told: Mapping[str, Any]) -> None:
    import jpype

    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED]
    jars = [str(jar) for jar in fetch(LOCK)]
    jpype.startJVM(
        MEMORY, "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", *opened, classpath=jars
    )
    logs = jpype.JClass("org.slf4j.LoggerFactory").getLogger("ROOT")
    logs.setLevel(jpype.JClass("ch.qos.logback.classic.Level").WARN)
    embedded = jpype.JClass("com.alibaba.otter.canal.server.embedded.CanalServerWithEmbedded")
    server = embedded.instance()
    instance = _instance(told)
    generator = "com.alibaba.otter.canal.instance.core.CanalInstanceGenerator"
    server.setCanalInstanceGenerator(jpype.JProxy(generator, dict={"generate": lambda _: instance}))
    server.start()
    server.start(_DESTINATION)
    identity = jpype.JClass("com.alibaba.otter.canal.protocol.ClientIdentity")
    reader = identity(_DESTINATION, jpype.JShort(1001), _filter(told))
    server.subscribe(reader)
    ended = threading.Event()
    threading.Thread(target=_wait_for_end, args=(ended,), daemon=True).start()
    capture = Capture(Path(told["landing"]))
    flat = _flat()
    while not ended.is_set():
        message = server.getWithoutAck(
            reader, BATCH, jpype.JLong(500), jpype.java.util.concurrent.TimeUnit.MILLISECONDS
        )
        if message.getId() == -1:
            capture.close()
            continue
        for value in flat(message):
            capture.write("canal", None, value)
        server.ack(reader, message.getId())
    capture.close()


_DESTINATION = "shop"


def _filter(told: Mapping[str, Any]) -> str:
    return f"{told['database']}\\..*"


def _instance(told: Mapping[str, Any]) -> Any:
    import jpype

    model = "com.alibaba.otter.canal.instance.manager.model"
    parameter = jpype.JClass(f"{model}.CanalParameter")()

    def mode(kind: str, name: str) -> Any:
        return getattr(jpype.JClass(f"{model}.CanalParameter${kind}Mode"), name)

    parameter.setMetaMode(mode("Meta", "MEMORY"))
    parameter.setIndexMode(mode("Index", "MEMORY"))
    parameter.setHaMode(mode("HA", "HEARTBEAT"))
    parameter.setStorageMode(mode("Storage", "MEMORY"))
    address = jpype.java.net.InetSocketAddress("127.0.0.1", told["port"])
    sourcing = jpype.JClass(f"{model}.CanalParameter$DataSourcing")
    kind = jpype.JClass(f"{model}.CanalParameter$SourcingType").MYSQL
    group = jpype.java.util.ArrayList()
    group.add(sourcing(kind, address))
    groups = jpype.java.util.ArrayList()
    groups.add(group)
    parameter.setGroupDbAddresses(groups)
    parameter.setDbUsername(told["user"])
    parameter.setDbPassword(told["password"])
    parameter.setDefaultDatabaseName(told["database"])
    positions = jpype.java.util.ArrayList()
    positions.add(json.dumps(told["position"]))
    parameter.setPositions(positions)
    parameter.setSlaveId(jpype.JLong(5399))
    parameter.setDetectingEnable(False)
    parameter.setGtidEnable(False)
    parameter.setTsdbEnable(False)
    parameter.setParallel(False)
    canal = jpype.JClass(f"{model}.Canal")()
    canal.setId(jpype.JLong(1))
    canal.setName(_DESTINATION)
    canal.setCanalParameter(parameter)
    manager = jpype.JClass("com.alibaba.otter.canal.instance.manager.CanalInstanceWithManager")
    instance = manager(canal, _filter(told))
    _remember_tables(instance.getEventParser())
    return instance


def _remember_tables(parser: Any) -> None:
    """Let Canal follow the tables through their statements, as its deployment does by a database of
    its own: without, it asks the server, whose tables are newer than the log that it reads."""
    import jpype

    package = "com.alibaba.otter.canal.parse.inbound.mysql.tsdb"
    memory = jpype.JClass(f"{package}.MemoryTableMeta")()
    kept = {name: getattr(memory, name) for name in ("init", "find", "apply", "snapshot")}
    # It is empty where Canal begins, and asks the server for what it lacks.
    kept |= {"rollback": lambda _: True, "destory": lambda: None}
    tables = jpype.JProxy(f"{package}.TableMetaTSDB", dict=kept)
    made = {"build": lambda *_: tables, "destory": lambda *_: None}
    parser.setTableMetaTSDBFactory(jpype.JProxy(f"{package}.TableMetaTSDBFactory", dict=made))
    for tell in (parser.setTsdbJdbcUrl, parser.setTsdbJdbcUserName, parser.setTsdbJdbcPassword):
        tell("")
    parser.setEnableTsdb(True)


def _flat() -> Any:
    """How a message of Canal becomes the values of Kafka's records."""
    import jpype

    utils = jpype.JClass("com.alibaba.otter.canal.connector.core.producer.MQMessageUtils")
    json_ = jpype.JClass("com.alibaba.fastjson2.JSON")
    feature = jpype.JClass("com.alibaba.fastjson2.JSONWriter$Feature")
    nulls = [feature.WriteNulls]
    pool = jpype.java.util.concurrent.Executors.newFixedThreadPool(2)

    def flat(message: Any) -> Iterator[bytes]:
        rows = utils.buildMessageData(message, pool)
        for one in utils.messageConverter(rows, message.getId()):
            yield bytes(json_.toJSONBytes(one, nulls))

    return flat


def _wait_for_end(ended: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    ended.set()


if __name__ == "__main__":
    _run(json.loads(Path(sys.argv[1]).read_text()))
    # Canal's own threads would keep the process for ever.
    sys.stdout.flush()
    os._exit(0)
