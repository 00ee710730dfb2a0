"""The review over HTTP: who gets an answer, who may decide, and that no text of a source runs."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest

from ingest.errors import ConfigError, Mistake
from pipelines.cli.context import Invocation
from pipelines.operations.listings import DDL
from pipelines.web.review import Change, Inbox, fingerprint
from pipelines.web.server import MOST_FORM, Site, own_names, serving
from tests.support.browser import NavigatedError, Page, browser
from tests.support.project import Project

PICTURE = Path(__file__).parents[2] / "docs/pictures/review.png"

HOSTILE = (
    "</pre><script>fetch('//evil.example')</script><img src=x onerror=alert(1)>"
    "\u202e\x1b[2J{{9001*9007}}"
)


def entry(id_: str, **values: Any) -> Change:
    """One schema change as `ddl list` has it."""
    return {
        **dict.fromkeys((*DDL, "lost_rows")),
        **{"id": id_, "source": "shop", "db": "shop", "table": "items", "target": "shop_items"},
        **{"status": "pending", "class": "destructive", "kind": "drop_column"},
        **values,
    }


@dataclass
class Fake:
    """A review of two changes, which notes what is decided."""

    changes: dict[str, Change] = field(
        default_factory=lambda: {
            "aa11": entry("aa11", statement=HOSTILE, proposed=HOSTILE, why=HOSTILE, table=HOSTILE),
            "bb22": entry("bb22", status="applied", statement="ALTER", decided_by=HOSTILE),
        }
    )
    decided: list[tuple[str, str, str, str]] = field(default_factory=list)

    def inbox(self) -> Inbox:
        every = list(self.changes.values())
        waiting = [change for change in every if change["status"] == "pending"]
        return Inbox(waiting, [c for c in every if c not in waiting], len(waiting), 1)

    def change(self, id_: str) -> Change:
        if id_ not in self.changes:
            raise ConfigError([Mistake("command line", None, f"no schema change {id_}")])
        return self.changes[id_]

    def decide(self, verb: str, change: Change, *, by: str, why: str) -> Change:
        self.decided.append((verb, change["id"], by, why))
        status = {"approve": "applied", "reject": "rejected"}[verb]
        self.changes[change["id"]] = done = {**change, "status": status}
        return done


class Got(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: str


class Client:
    """Someone who speaks HTTP with the server, with a cookie once there is one."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.netloc, self.entrance = parts.netloc, f"{parts.path}?{parts.query}"
        self.cookie: str | None = None

    def ask(self, method: str, path: str, form: Any = None, **headers: str) -> Got:
        connection = http.client.HTTPConnection(self.netloc, timeout=20)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        body = None
        if form is not None:
            body = form if isinstance(form, str) else urlencode(form)
            given.setdefault("Content-Type", "application/x-www-form-urlencoded")
        if self.cookie is not None:
            given.setdefault("Cookie", self.cookie)
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        got = Got(answer.status, answer.headers, answer.read().decode())
        connection.close()
        return got

    def enter(self) -> None:
        """Take the cookie, as a browser that opens the printed address."""
        got = self.ask("GET", self.entrance)
        assert (got.status, got.headers["Location"]) == (303, "/")
        kept = got.headers["Set-Cookie"]
        assert "; HttpOnly" in kept and "; SameSite=Strict" in kept
        self.cookie = kept.partition(";")[0]

    def form(self, path: str) -> dict[str, str]:
        """The hidden fields of a page's form."""
        page = self.ask("GET", path).body
        return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))


@pytest.fixture
def review() -> Fake:
    return Fake()


@pytest.fixture
def client(review: Fake) -> Iterator[Client]:
    with serving(Site(review, "warehouse", "ada")) as address:
        yield Client(address)


def test_a_decision_is_taken_with_name_and_reason(client: Client, review: Fake) -> None:
    client.enter()
    inbox = client.ask("GET", "/")
    assert inbox.status == 200 and "1 to decide" in inbox.body and "/change/aa11" in inbox.body
    hidden = client.form("/change/aa11")
    decision = {**hidden, "verb": "reject", "by": "ada", "why": "still needed"}
    got = client.ask("POST", "/change/aa11", decision, Origin=f"http://{client.netloc}")
    assert (got.status, got.headers["Location"]) == (303, "/change/aa11")
    assert review.decided == [("reject", "aa11", "ada", "still needed")]
    assert "0 to decide" in client.ask("GET", "/").body
    # What is decided has no form, and the old one no effect.
    assert client.form("/change/aa11") == {}
    assert client.ask("POST", "/change/aa11", {**decision, "verb": "approve"}).status == 409
    assert len(review.decided) == 1


@pytest.mark.parametrize("missing", ["by", "why", "verb"])
def test_a_decision_without_name_or_reason_is_none(
    client: Client, review: Fake, missing: str
) -> None:
    client.enter()
    decision = {**client.form("/change/aa11"), "verb": "approve", "by": "ada", "why": "x"}
    got = client.ask("POST", "/change/aa11", {**decision, missing: " "})
    assert (got.status, review.decided) == (409, [])
    assert "a decision needs who decides and a reason" in got.body


def test_who_decides_decides_on_what_the_page_showed(client: Client, review: Fake) -> None:
    client.enter()
    decision = {**client.form("/change/aa11"), "verb": "approve", "by": "ada", "why": "x"}
    review.changes["aa11"]["proposed"] = "ALTER TABLE another"
    got = client.ask("POST", "/change/aa11", decision)
    assert (got.status, review.decided) == (409, [])
    assert "not what the page showed" in got.body


@pytest.mark.parametrize("path", ["/", "/change/aa11", "/style.css", "/?token=", "/?token=wrong"])
def test_without_the_token_nothing_is_shown(client: Client, path: str) -> None:
    got = client.ask("GET", path)
    assert got.status == 403 and "items" not in got.body
    client.cookie = "review-1=x"
    assert client.ask("GET", path).status == 403


def test_another_site_cannot_decide(client: Client, review: Fake) -> None:
    client.enter()
    decision = {**client.form("/change/aa11"), "verb": "approve", "by": "eve", "why": "x"}

    def refused(form: Any = decision, **headers: str) -> int:
        return client.ask("POST", "/change/aa11", form, **headers).status

    assert refused(Origin="http://evil.example") == refused(Origin="null") == 403
    assert refused(Sec_Fetch_Site="cross-site") == refused(Sec_Fetch_Site="same-site") == 403
    assert refused({**decision, "form": "guess"}) == refused({}) == 403
    assert refused(Cookie="review=stolen") == 403
    assert refused("{}", Content_Type="text/plain") == 415
    assert refused("x" * (MOST_FORM + 1)) == 413
    assert review.decided == []


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil:80"])
def test_only_our_own_names_are_answered(client: Client, host: str) -> None:
    client.enter()
    for method, form in (("GET", None), ("POST", {})):
        got = client.ask(method, "/", form, Host=host)
        assert (got.status, got.body) == (421, "no such host\n")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "", "localhost"])
def test_who_opens_the_printed_address_gets_in(review: Fake, host: str) -> None:
    with serving(Site(review, "warehouse", "ada"), host=host) as address:
        printed = urlsplit(address)
        # The machine's own name may be one that nobody here resolves.
        client = Client(address.replace(printed.netloc, f"127.0.0.1:{printed.port}"))
        got = client.ask("GET", client.entrance, Host=printed.netloc)
        assert (got.status, got.headers["Location"]) == (303, "/")
        everywhere = host in ("0.0.0.0", "")
        assert (printed.hostname == socket.gethostname().lower()) == everywhere


def test_at_every_address_the_machine_is_known_by_each(review: Fake) -> None:
    """By no other: a name of another site that leads here is not ours."""
    with serving(Site(review, "warehouse", "ada"), host="0.0.0.0") as address:
        port = urlsplit(address).port
        for name in ("127.0.0.1", "127.0.0.2", "127.1.2.3"):
            there = Client(address.replace(urlsplit(address).netloc, f"{name}:{port}"))
            there.enter()
            assert there.ask("GET", "/").status == 200
            assert there.ask("GET", "/", Host=f"127.9.9.9:{port}").status == 421
            assert there.ask("GET", "/", Host=f"evil.example:{port}").status == 421
    with serving(Site(review, "warehouse", "ada"), host="127.0.0.2") as address:
        there = Client(address)
        assert there.ask("GET", "/", Host=f"127.0.0.3:{urlsplit(address).port}").status == 421


def test_the_port_that_browsers_leave_out(review: Fake) -> None:
    assert own_names("127.0.0.1", 80) >= {"127.0.0.1", "127.0.0.1:80", "localhost"}
    assert "localhost" not in own_names("127.0.0.1", 8420)


def test_only_get_and_post_are_answered_and_no_other_origin(client: Client) -> None:
    client.enter()
    for method in ("OPTIONS", "PUT", "DELETE", "PATCH", "HEAD"):
        got = client.ask(method, "/", Origin="http://evil.example")
        assert got.status == 501
        assert not [name for name in got.headers if name.lower().startswith("access-control")]
    assert client.ask("POST", "/", {**client.form("/change/aa11")}).status == 404
    assert client.ask("GET", "/nothing").status == 404
    assert client.ask("GET", "/change/zz").status == 404


def test_no_text_of_a_source_runs(client: Client) -> None:
    client.enter()
    for path in ("/", "/change/aa11", "/change/bb22", f"/change/{'%3Cscript%3E'}"):
        got = client.ask("GET", path)
        assert not re.search(r"<(script|img|iframe|style)\b", got.body)
        assert "\u202e" not in got.body and "\x1b" not in got.body and "81072007" not in got.body
        policy = got.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script" not in policy
        assert got.headers["X-Content-Type-Options"] == "nosniff"
        assert got.headers["Cache-Control"] == "no-store"
    shown = client.ask("GET", "/change/aa11").body
    assert "&lt;script&gt;" in shown and r"\u202e\x1b[2J{{9001*9007}}" in shown


def test_the_token_leads_nowhere_else(client: Client) -> None:
    token = client.entrance.partition("token=")[2]
    for path in ("//evil.example/", "/\\evil.example/"):
        got = client.ask("GET", f"{path}?token={token}")
        assert got.status in (303, 403)
        assert not (got.headers["Location"] or "/").startswith(("//", "/\\"))


def test_the_command_serves_until_it_is_told_to_end(
    review: Fake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On this machine alone unless told otherwise, and with a token that is another each time."""
    printed: list[str] = []

    def wait(*_: float) -> None:
        printed.append(capsys.readouterr().out.strip())
        client = Client(printed[-1])
        client.enter()
        assert "1 to decide" in client.ask("GET", "/").body
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Invocation, "warehouse", None)
    monkeypatch.setattr("pipelines.web.review.LedgerReview", lambda _: review)
    monkeypatch.setattr("pipelines.platform.signals.Stop.wait", wait)
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", "name: shop\nfiles: {path: x}\n")
    for _ in range(2):
        assert project.ingest("review", "--serve", "--port", "0").code == 0
    assert all(re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", one) for one in printed)
    tokens = {address.partition("token=")[2] for address in printed}
    assert len(tokens) == 2
    with serving(Site(review, "warehouse", "ada")) as taken:
        port = taken.partition("127.0.0.1:")[2].partition("/")[0]
        answer = project.ingest("review", "--serve", "--port", port)
    assert answer.code == 2 and f"cannot listen at 127.0.0.1:{port}: " in answer.err


def test_what_is_seen_tells_a_change_from_another() -> None:
    one = entry("aa11", proposed="x")
    assert fingerprint(one) == fingerprint({**one, "waiting_rows": 5})
    assert fingerprint(one) != fingerprint({**one, "proposed": "y"})


def visit(page: Page, address: str, *, patience: float = 120) -> None:
    """Open an address as if it were typed."""
    loaded(page, lambda: page._call("Page.navigate", url=address), patience)


def press(page: Page, selector: str, *, patience: float = 120) -> None:
    """Press what leads to another page."""
    click = f"document.querySelector({json.dumps(selector)}).click()"
    loaded(page, lambda: page.value(click), patience)


def loaded(page: Page, act: Callable[[], object], patience: float) -> None:
    """Do what leads to another page, and wait until that is there, so many seconds at most."""
    before = page.value("performance.timeOrigin")
    act()
    end = time.monotonic() + patience
    while True:
        with suppress(NavigatedError):
            there = page.value("[performance.timeOrigin, document.readyState]")
            if there[0] != before and there[1] == "complete":
                return
        assert time.monotonic() < end, "the page did not come"
        time.sleep(0.1)


CITY = entry(
    "7728b0749522",
    source="canal",
    db="canal",
    table="customers",
    target="canal_customers",
    statement="ALTER TABLE `customers` DROP COLUMN `city`",
    proposed="ALTER TABLE gold.canal_customers DROP COLUMN `city`",
    why="its values go with it; added again it is a new column",
    waiting_rows=0,
    lost_rows=3,
    event_time=datetime(2024, 3, 5, tzinfo=UTC),
)


@pytest.mark.usefixtures("a_browser")
@pytest.mark.parametrize(("verb", "state"), [("approve", "applied"), ("reject", "rejected")])
def test_both_buttons_decide(
    client: Client, review: Fake, tmp_path: Path, verb: str, state: str
) -> None:
    with browser(tmp_path) as page:
        visit(page, f"http://{client.netloc}{client.entrance}")
        press(page, "a[href='/change/aa11']")
        page.value("document.querySelector('textarea').value = 'agreed <b>'")
        press(page, f"button.{verb}")
        assert page.value("document.querySelector('h1 .state').textContent") == state
        assert page.value("document.querySelector('form')") is None
        assert page.said == []
    assert review.decided == [(verb, "aa11", "ada", "agreed <b>")]


@pytest.mark.usefixtures("a_browser")
def test_pages_are_read_on_a_screen_and_on_a_phone(tmp_path: Path) -> None:
    """`SCREENS=write` takes the picture of docs/review.md anew."""
    changes = {change["id"]: change for change in (CITY, *Fake().changes.values())}
    with (
        serving(Site(Fake(changes), "warehouse", "ada")) as address,
        browser(tmp_path) as page,
    ):
        for width in (900, 390):
            page.size(width, 900)
            visit(page, address)
            for id_ in changes:
                visit(page, address.partition("?")[0])
                assert page.value("document.documentElement.scrollWidth") <= width
                press(page, f"a[href='/change/{id_}']")
                assert page.value("document.documentElement.scrollWidth") <= width
                if id_ == CITY["id"] and width == 900 and os.environ.get("SCREENS") == "write":
                    page.screenshot(PICTURE)
        assert page.value("document.title") == "Schema change bb22"
        assert page.said == []
