"""A small schema registry that speaks HTTP, for tests: its answers, and what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Answer = tuple[int, bytes] | Callable[["Asked", Any], None]


class Asked(NamedTuple):
    """One request: its path and the header that says who asks."""

    path: str
    authorization: str | None


class RegistryServer:
    """`answers`: path -> status and body, or a function that writes the answer itself."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[Asked] = []
        self.url = ""

    def has(self, id_: int, schema: Any, **more: Any) -> None:
        """Registers a schema under an id."""
        answer = {"schema": json.dumps(schema), **more}
        self.answers[f"/schemas/ids/{id_}"] = (200, json.dumps(answer).encode())

    def has_subject(self, path: str, schema: Any, **more: Any) -> None:
        """Registers a schema that others refer to; `path` as it is asked for."""
        answer = {"subject": "s", "version": 1, "id": 9, "schema": json.dumps(schema), **more}
        self.answers[f"/subjects/{path}"] = (200, json.dumps(answer).encode())


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """A registry on a port of its own, as long as the block lasts."""
    state = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = Asked(self.path, self.headers.get("Authorization"))
            state.asked.append(asked)
            answer = state.answers.get(self.path, (404, b'{"error_code":40403}'))
            if not isinstance(answer, tuple):
                answer(asked, self)
                return
            status, body = answer
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
