"""PostgreSQL's changes by the plugin wal2json, taken from a slot."""

from __future__ import annotations

from tests.live.capture import Capture
from tests.live.servers import Server, connect

_BOTH = {"include-pk": "true", "include-lsn": "true", "include-timestamp": "true"}
OPTIONS = {
    1: {**_BOTH, "include-types": "true", "include-typmod": "true", "include-xids": "true"},
    2: {**_BOTH, "format-version": "2", "include-transaction": "true", "include-xids": "true"},
}


class Slot:
    """A slot of one format version: what happened since it was made comes to its capture."""

    def __init__(self, server: Server, version: int, capture: Capture) -> None:
        self.name = f"wal2json_{version}"
        self._capture = capture
        self._options = [word for pair in OPTIONS[version].items() for word in pair]
        self._connection = connect(server)
        self._connection.execute(
            "SELECT pg_create_logical_replication_slot(%s, 'wal2json')", (self.name,)
        )

    def take(self) -> None:
        """Take what has been committed since the last call."""
        cursor = self._connection.execute(
            "SELECT data FROM pg_logical_slot_get_changes(%s, NULL, NULL, VARIADIC %s)",
            (self.name, self._options),
        )
        for (data,) in cursor:
            self._capture.write(self.name, None, data.encode())
        self._capture.close()

    def close(self) -> None:
        """Leave the slot and remove it: one that stays keeps the server's log for ever."""
        self._connection.execute("SELECT pg_drop_replication_slot(%s)", (self.name,))
        self._connection.close()
