"""`checks:` of `conf/ingest.yml`: how far behind sources and targets may be, and how much may be
set aside."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from ingest.addresses import wrong_address
from ingest.config.cadence import Duration
from ingest.config.model import Broken, ConfigModel, Text, Whole

_RANGE = re.compile(r"\[[^\]]+\]")
_OF_TARGETS = re.compile(r"[A-Za-z0-9_*?]*")
"""The only characters of a pattern without ranges that can match a target's name."""
Count = Annotated[Whole, Field(ge=0)] | None


class Bounds(ConfigModel):
    """What is still acceptable; None: anything.

    `freshness`: how long ago the newest change of a target may have happened. `lag`: how long a
    message may wait for silver, or a change for its target. `rejects`: how many may be open, for a
    source or a target. `pending_ddl`: how many schema changes of a target may wait.
    """

    freshness: Duration = None
    lag: Duration = None
    rejects: Count = None
    pending_ddl: Count = None


class Checks(Bounds):
    """The bounds of all targets, those of `tables` by pattern, and who is told.

    `gaps`: how many spans of messages of a source may have been gone before they were read. By
    default none: what is lost does not come back by itself.
    """

    gaps: Count = 0
    tables: Mapping[Text, Bounds] = {}
    webhook: Text | None = Field(default=None, repr=False)

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        url = given.get("webhook")
        wrong = wrong_address(url) if isinstance(url, str) and url else ""
        if wrong:
            # Not shown: a part of it may be a secret.
            yield ("webhook",), f"expected an address like https://host/path: {wrong}"
        tables = given.get("tables")
        for pattern in tables if isinstance(tables, dict) else ():
            if not _OF_TARGETS.fullmatch(_RANGE.sub("", pattern)):
                text = (
                    f"`{pattern}` matches no table of gold: expected a target's name, without its "
                    f"schema, or a pattern like audit_*; names hold A-Z, a-z, 0-9 and _ alone"
                )
                yield ("tables", pattern), text

    def of(self, target: str) -> Bounds:
        """The bounds of a target: those of all targets, overruled by the patterns in `tables` that
        match it, of which the last one counts most."""
        bounds_of_all = {name: getattr(self, name) for name in Bounds.model_fields}
        for pattern, bounds in self.tables.items():
            if fnmatch.fnmatchcase(target.lower(), pattern.lower()):
                bounds_of_all |= {name: getattr(bounds, name) for name in bounds.model_fields_set}
        return Bounds.model_construct(**bounds_of_all)
