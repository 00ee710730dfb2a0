"""What the pages of the review show and do: the functions of `ingest ddl`, one request at a time.

There is one Spark session, and a decision waits for gold, so requests take turns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple, Protocol

import orjson

from ingest.errors import ConfigError, Mistake
from pipelines.ledger.entries import WAITING
from pipelines.operations.decisions import decide
from pipelines.operations.listings import ddl, one_ddl
from pipelines.platform.warehouse import Warehouse
from pipelines.terminal.console import json_value

MOST_WAITING, MOST_DECIDED = 200, 50
"""How many changes of each kind the inbox lists; `ingest ddl list` has the rest."""

Change = dict[str, Any]
"""One schema change: the columns DDL and, if a single change is asked for, `lost_rows`."""


class Inbox(NamedTuple):
    """The changes that wait, in order of position, and the newest decisions, with the number of
    each."""

    waiting: Sequence[Change]
    decided: Sequence[Change]
    all_waiting: int
    all_decided: int


class Review(Protocol):
    """What a server shows and does. All methods raise IngestError with the sentence for the
    page."""

    def inbox(self) -> Inbox:
        """The changes that wait, and the decisions that were taken."""

    def change(self, id_: str) -> Change:
        """One change, by its id or a beginning of it that fits no other."""

    def decide(self, verb: str, change: Change, *, by: str, why: str) -> Change:
        """Approve or reject a change that was looked at; returns it as it is afterwards."""


@dataclass
class LedgerReview:
    """The review of the ledger of a warehouse."""

    warehouse: Warehouse

    def __post_init__(self) -> None:
        self._turn = Lock()

    def inbox(self) -> Inbox:
        """See Review."""
        with self._turn:
            changes = ddl(self.warehouse)
        waiting = [change for change in changes if change["status"] in WAITING]
        decided = [change for change in changes if change["status"] not in WAITING]
        # Changes that were never decided, such as statements that are only logged, stand last.
        decided.sort(key=lambda change: str(change["decided_at"] or ""), reverse=True)
        return Inbox(waiting[:MOST_WAITING], decided[:MOST_DECIDED], len(waiting), len(decided))

    def change(self, id_: str) -> Change:
        """See Review."""
        with self._turn:
            return one_ddl(self.warehouse, id_)

    def decide(self, verb: str, change: Change, *, by: str, why: str) -> Change:
        """See Review."""
        with self._turn:
            now = one_ddl(self.warehouse, change["id"])
            if fingerprint(now) != fingerprint(change):
                text = f"{change['id']} is not what the page showed: look at it again"
                raise ConfigError([Mistake("review", None, text)])
            decide(self.warehouse, verb, ids=[change["id"]], by=by, why=why)
            return one_ddl(self.warehouse, change["id"])


def fingerprint(change: Change) -> str:
    """A hash of what a reviewer saw: if the change is another one by now, the decision is
    refused."""
    shown = [change[name] for name in ("id", "status", "target", "class", "statement", "proposed")]
    return hashlib.sha256(orjson.dumps(json_value(shown))).hexdigest()[:32]
