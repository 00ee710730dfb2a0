"""`--listen HOST:PORT`: metrics, and whether the run lives and works, over HTTP.

It only reads and has no login: whoever may reach the port may read the names of sources and
targets, and counts. `/metrics` answers in the format that is asked for, OpenMetrics or Prometheus'
text; `/health` says that the process is alive; `/ready` says whether passes end, and how.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
from prometheus_client.exposition import choose_encoder

from ingest.errors import PlatformError
from pipelines.telemetry.metrics import Readings

_PATIENCE = 5.0
"""How many seconds a client has for its request."""


@contextmanager
def listening(host: str, port: int, readings: Readings) -> Iterator[int]:
    """Answer until the block ends; yields the port. Port 0 takes any free one.

    Raises PlatformError if the address is not available.
    """

    class Handler(_Handler):
        shown = readings

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise PlatformError(
            f"cannot listen at {host}:{port}: {why}; choose another --listen"
        ) from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    shown: Readings
    timeout = _PATIENCE
    server_version = "delta-cdc-ingest"
    sys_version = ""

    def do_GET(self) -> None:
        path, reading = self.path.partition("?")[0], self.shown.newest
        if path == "/metrics":
            encode, kind = choose_encoder(self.headers.get("Accept", ""))
            self._answer(200, encode(self.shown.registry), kind)
        elif path in ("/health", "/ready"):
            well = path == "/health" or (reading is not None and reading.ready)
            state: dict[str, Any] = {"status": "ok" if well else "not ready"}
            if reading is not None:
                since = (datetime.now(UTC) - reading.at).total_seconds()
                failing = sorted(name for name, fails in reading.failing.items() if fails)
                state |= {"run": reading.run, "passes": reading.passes}
                state |= {"seconds_since_pass": round(since, 1), "failing": failing}
                state["parked"] = sum(reading.parked.values())
            self._answer(200 if well else 503, orjson.dumps(state) + b"\n", "application/json")
        else:
            self._answer(404, b"there are /metrics, /health and /ready\n", "text/plain")

    def _answer(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged, since they come every few seconds."""
