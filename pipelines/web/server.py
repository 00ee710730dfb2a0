"""The review over HTTP, on this machine: GET reads, POST decides, nothing else is answered.

Three things keep others out. The address that is printed holds a token, which is exchanged for a
cookie that no other site can send (SameSite=Strict). A decision needs a second token, which only
our own page has. And a request is only answered under the names of this server, so that a page
elsewhere cannot reach it by pointing its own name here (DNS rebinding).
"""

from __future__ import annotations

import re
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from ingest.errors import ConfigError, IngestError, LeaseHeld
from pipelines.operations.decisions import DECIDABLE
from pipelines.platform.failures import described
from pipelines.web.pages import STYLE, change_page, inbox_page, message_page
from pipelines.web.review import Review, fingerprint

LOOPBACK = "127.0.0.1"
MOST_FORM = 64 << 10
"""The most bytes of a form."""
_PATIENCE = 30.0
"""How many seconds a connection may be silent."""
_CHANGE = re.compile(r"/change/([^/?#]{1,200})")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Answer(NamedTuple):
    """The answer to a request."""

    status: HTTPStatus
    body: str = ""
    headers: Mapping[str, str] = {}
    kind: str = "text/html; charset=utf-8"


@dataclass
class Site:
    """The pages of a review, for those who have its token. `by`: who decides, unless they give
    another name."""

    review: Review
    warehouse_name: str
    by: str
    names: frozenset[str] = frozenset()
    """The values of `Host` under which it answers."""
    everywhere: bool = False
    """Whether it also answers under the address of the machine to which a request came."""
    cookie: str = "review"
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _form: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def get(self, target: str, headers: Mapping[str, str], *, at: tuple[str, int]) -> Answer:
        """A page. If the address has the token, the answer sets the cookie and leads to the same
        page without the token. `at`: the address and port to which the request came."""
        refused = self._stranger(headers, at)
        if refused is not None:
            return refused
        address = urlsplit(target)
        [token] = parse_qs(address.query).get("token", [""])[-1:]
        if _same(token, self.token):
            kept = f"{self.cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
            return _to(address.path, {"Set-Cookie": kept})
        if not self._known(headers):
            return _refused("open the address that `ingest review --serve` printed")
        if address.path == "/style.css":
            text = STYLE.read_text(encoding="utf-8")
            return Answer(HTTPStatus.OK, text, kind="text/css; charset=utf-8")
        if address.path == "/":
            return _page(inbox_page(self.review.inbox(), warehouse_name=self.warehouse_name))
        if found := _CHANGE.fullmatch(address.path):
            return self._change(unquote(found[1]))
        return self._nothing()

    def post(
        self, target: str, headers: Mapping[str, str], body: str, *, at: tuple[str, int]
    ) -> Answer:
        """A decision, taken only from the form of a change's page."""
        refused = self._stranger(headers, at)
        if refused is not None:
            return refused
        given = {name: values[-1] for name, values in parse_qs(body, max_num_fields=20).items()}
        host, origin = headers.get("Host", ""), headers.get("Origin")
        ours = origin in (None, f"http://{host}")
        ours &= headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
        if not (ours and self._known(headers) and _same(given.get("form", ""), self._form)):
            return _refused("this form is not of this server: open its page again")
        found = _CHANGE.fullmatch(urlsplit(target).path)
        return self._nothing() if found is None else self._decision(unquote(found[1]), given)

    def _change(self, id_: str, error: str | None = None) -> Answer:
        change = self.review.change(id_)
        page = change_page(
            change, warehouse_name=self.warehouse_name, form=self._form, by=self.by, error=error
        )
        return _page(page, HTTPStatus.OK if error is None else HTTPStatus.CONFLICT)

    def _decision(self, id_: str, given: Mapping[str, str]) -> Answer:
        verb, by, why = (given.get(name, "").strip() for name in ("verb", "by", "why"))
        if verb not in DECIDABLE or not by or not why or max(len(by), len(why)) > 2000:
            return self._change(id_, "a decision needs who decides and a reason")
        change = self.review.change(id_)
        if fingerprint(change) != given.get("seen"):
            return self._change(id_, "the change is not what the page showed: look at it again")
        try:
            done = self.review.decide(verb, change, by=by, why=why)
        except (ConfigError, LeaseHeld) as error:
            return self._change(id_, described(error))
        if done["status"] == "failed":
            return self._change(id_, f"this failed: {done['why']}")
        return _to(f"/change/{quote(str(done['id']), safe='')}")

    def _stranger(self, headers: Mapping[str, str], at: tuple[str, int]) -> Answer | None:
        """The refusal of a request that came under a name other than ours."""
        names = self.names | own_names(*at) if self.everywhere else self.names
        if headers.get("Host", "").lower() in names:
            return None
        return Answer(HTTPStatus.MISDIRECTED_REQUEST, "no such host\n", kind="text/plain")

    def _known(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has the cookie."""
        try:
            cookies = SimpleCookie(headers.get("Cookie", ""))
        except CookieError:
            return False
        return self.cookie in cookies and _same(cookies[self.cookie].value, self._session)

    def _nothing(self) -> Answer:
        page = message_page(
            "Nothing here", "there is no such page", warehouse_name=self.warehouse_name
        )
        return _page(page, HTTPStatus.NOT_FOUND)


def _same(given: str, own: str) -> bool:
    return secrets.compare_digest(given.encode(), own.encode())


def _page(body: str, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return Answer(status, body)


def _to(path: str, headers: Mapping[str, str] | None = None) -> Answer:
    """A redirect to another page of ours; `//` at its beginning would lead to another server."""
    there = "/" + path.lstrip("/\\")
    return Answer(HTTPStatus.SEE_OTHER, headers={"Location": there, **(headers or {})})


def _refused(text: str) -> Answer:
    return _page(message_page("Not for you", text), HTTPStatus.FORBIDDEN)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server_version, sys_version = "ingest", ""
    timeout = _PATIENCE
    site: Site

    def do_GET(self) -> None:
        self._answer(lambda: self.site.get(self.path, self._headers(), at=self._at()))

    def do_POST(self) -> None:
        self._answer(self._posted)

    def _posted(self) -> Answer:
        kind = self.headers.get_content_type()
        length = self.headers.get("Content-Length", "")
        if kind != "application/x-www-form-urlencoded" or not length.isdigit():
            return Answer(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected a form\n", kind="text/plain")
        if int(length) > MOST_FORM:
            return Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too large\n", kind="text/plain")
        body = self.rfile.read(int(length)).decode("utf-8", "replace")
        return self.site.post(self.path, self._headers(), body, at=self._at())

    def _at(self) -> tuple[str, int]:
        host, port = self.connection.getsockname()[:2]
        return str(host), int(port)

    def _headers(self) -> dict[str, str]:
        """The headers that count; a request that names its host twice is treated as naming none."""
        counted = ("Host", "Cookie", "Origin", "Sec-Fetch-Site")
        found = {name: self.headers.get_all(name, []) for name in counted}
        return {name: values[0] for name, values in found.items() if len(values) == 1}

    def _answer(self, work: Any) -> None:
        try:
            answer: Answer = work()
        except IngestError as error:
            there = not isinstance(error, ConfigError)
            status = HTTPStatus.SERVICE_UNAVAILABLE if there else HTTPStatus.NOT_FOUND
            answer = _page(message_page("This did not work", str(error)), status)
        except Exception as error:
            text = described(error)
            answer = _page(
                message_page("This did not work", text), HTTPStatus.INTERNAL_SERVER_ERROR
            )
        body = answer.body.encode("utf-8", "replace")
        self.send_response(answer.status)
        for name, value in {**_HEADERS, **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged, since addresses hold the token."""


def own_names(host: str, port: int) -> frozenset[str]:
    """The values of `Host` that browsers send to a server at this host and port."""
    names = {host.lower(), LOOPBACK, "localhost"}
    return frozenset({f"{name}:{port}" for name in names} | (names if port == 80 else set()))


@contextmanager
def serving(site: Site, *, host: str = LOOPBACK, port: int = 0) -> Iterator[str]:
    """Serve the site while the block runs; yields the address with the token. `port` 0: a free one.

    Raises OSError if the port is taken.
    """
    site.everywhere = host in ("", "0.0.0.0")
    handler = type("Handler", (_Handler,), {"site": site})
    with ThreadingHTTPServer((host, port), handler) as server:
        server.daemon_threads = True
        at = server.server_port
        # A browser cannot open an address that stands for all addresses.
        named = socket.gethostname().lower() if site.everywhere else host
        site.names = own_names(named, at)
        # Browsers do not separate cookies by port.
        site.cookie = f"review-{at}"
        worker = threading.Thread(target=server.serve_forever, daemon=True)
        worker.start()
        try:
            yield f"http://{named}:{at}/?token={site.token}"
        finally:
            server.shutdown()
            worker.join()
