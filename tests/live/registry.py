"""A schema registry in memory that serializers can register with: `Confluent's REST API, v1`.

Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def registry() -> Iterator[str]:
    """Runs a registry for as long as the block lasts; gives its URL."""
    schemas: list[str] = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Register or look up a schema: equal ones have one id, whatever the subject."""
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
            with lock:
                if given not in schemas:
                    schemas.append(given)
                self._answer(200, {"id": schemas.index(given) + 1, "version": 1, "schema": given})

        def do_GET(self) -> None:
            parts = self.path.partition("?")[0].strip("/").split("/")
            known = parts[:2] == ["schemas", "ids"] and 0 < int(parts[2]) <= len(schemas)
            if known:
                self._answer(200, {"schema": schemas[int(parts[2]) - 1]})
            else:
                self._answer(404, {"error_code": 40403, "message": "Schema not found"})

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
