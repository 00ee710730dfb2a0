"""Connectors that read one server at once, each with what its source's YAML says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.live import debezium
from tests.live.canal import canal
from tests.live.capture import Capture
from tests.live.registry import registry
from tests.live.servers import Server
from tests.live.wal2json import Slot
from tests.live.workload import FINISHED

ARRIVES_WITHIN = 180.0  # seconds, on a busy machine
_SNAPSHOT_TAKEN = "Snapshot ended with SnapshotResult [status=COMPLETED"


class Connector(NamedTuple):
    """One reader of a server: its `source` as YAML has it, but for name and files."""

    name: str
    source: Mapping[str, Any]
    has_snapshot: bool = True


POSTGRESQL = (
    Connector("pg_json", {"format": "debezium"}),
    Connector("pg_avro", {"format": "debezium_avro"}),
    Connector(
        "wal2json_1",
        {
            "format": "wal2json",
            "default_database": "shop",
            # It names no key of a table whose rows before are sent whole.
            "keys": {"shop.public.orders": ["region", "id"]},
            "options": {"replica_identity": "full"},
        },
        has_snapshot=False,
    ),
    Connector("wal2json_2", {"format": "wal2json", "default_database": "shop"}, has_snapshot=False),
)
MYSQL = (
    Connector("my_json", {"format": "debezium"}),
    Connector(
        "my_avro",
        {
            "format": "debezium_avro",
            # The connector's own choice for these is signed.
            "columns": {"shop.everything": {"big_u": "bigint unsigned"}},
        },
    ),
    Connector(
        "canal",
        {"format": "canal", "time_zone": "UTC", "options": {"binary_zeros": "filled"}},
        has_snapshot=False,
    ),
)


class Running:
    """Connectors at work: their sources, and what they have sent so far."""

    def __init__(self, folder: Path, connectors: tuple[Connector, ...]) -> None:
        self.connectors = connectors
        self.folder = folder
        self.slots: list[Slot] = []
        self.logs: list[Path] = []
        self.registry = ""

    def landing(self, connector: Connector) -> Path:
        """Where the messages of a connector are written down."""
        return self.folder / "landing" / connector.name

    def source(self, connector: Connector) -> str:
        """The YAML of a connector's source."""
        source: dict[str, Any] = {"name": connector.name, **connector.source}
        source["files"] = {
            "path": f"landing/{connector.name}/*.jsonl",
            "framing": "kcat",
            "order": "path",
        }
        if source["format"] == "debezium_avro":
            source["options"] = {"schema_registry": self.registry}
        return yaml.safe_dump(source)

    def take(self) -> None:
        """Take what the slots hold."""
        for slot in self.slots:
            slot.take()

    def wait(self) -> None:
        """Wait until every connector has told that the workload is finished."""
        deadline = time.monotonic() + ARRIVES_WITHIN
        for connector in self.connectors:
            while not self.has_finished(connector):
                if time.monotonic() > deadline:
                    logs = [log.read_text(errors="replace")[-3000:] for log in self.logs]
                    raise RuntimeError("\n".join((f"{connector.name} has no end", *logs)))
                self.take()
                time.sleep(0.5)

    def have_snapshots(self) -> bool:
        """Whether every engine has read all tables once."""
        engines = sum(connector.has_snapshot for connector in self.connectors)
        logs = "".join(log.read_text(errors="replace") for log in self.logs)
        return logs.count(_SNAPSHOT_TAKEN) >= engines

    def has_finished(self, connector: Connector) -> bool:
        """Whether a connector has told that the workload is finished."""
        engine = connector.has_snapshot
        mark = f'.{FINISHED}"' if engine else f'\\"table\\":\\"{FINISHED}\\"'
        files = sorted(self.landing(connector).glob("*.jsonl"))[-3:]
        return any(mark in file.read_text(encoding="utf-8") for file in files)


@contextmanager
def reading(
    server: Server, folder: Path, *, connectors: tuple[Connector, ...]
) -> Iterator[Running]:
    """Runs connectors for as long as the block lasts."""
    running = Running(folder, connectors)
    with ExitStack() as stack:
        running.registry = stack.enter_context(registry())
        for connector in connectors:
            running.landing(connector).mkdir(parents=True)
            if connector.source["format"] == "canal":
                running.logs.append(
                    stack.enter_context(canal(server, folder, running.landing(connector)))
                )
            elif not connector.has_snapshot:
                capture = Capture(running.landing(connector))
                slot = Slot(server, int(connector.name[-1]), capture)
                stack.callback(slot.close)
                running.slots.append(slot)
        yield running


def start_engines(server: Server, running: Running, stack: ExitStack) -> None:
    """Debezium's snapshot is taken from here on, whatever goes on at the server."""
    wanted = []
    for connector in running.connectors:
        if not connector.has_snapshot:
            continue
        avro = connector.source["format"] == "debezium_avro"
        more = {"interval__handling__mode": "string"} if server.kind == "postgresql" else {}
        if server.kind == "mysql" and not avro:
            more["bigint__unsigned__handling__mode"] = "precise"
        if avro:
            for part in ("key", "value"):
                more[f"{part}__converter__schema__registry__url"] = running.registry
            more["value__converter__ignore__default__for__nullables"] = "true"
        else:
            # Else a NULL comes as the default of its column.
            more["value__converter__replace__null__with__default"] = "false"
        told = debezium.properties(server, connector.name, running.folder, **more)
        wanted.append(
            {
                "landing": running.landing(connector),
                "format": "avro" if avro else "json",
                "properties": told,
            }
        )
    running.logs.append(stack.enter_context(debezium.engines(running.folder, wanted)))
