"""Tell somebody over HTTP when the set of failing checks has changed.

One POST of JSON, tried TRIES times. The note `alerted.json` beside the checkpoints holds what was
told last: a check that keeps failing is reported once, and once when it passes again.
"""

from __future__ import annotations

import hashlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from pipelines.platform.checkpoints import read_note, write_whole
from pipelines.platform.warehouse import Warehouse
from pipelines.reporting.checks import Finding
from pipelines.telemetry.runs import now

TRIES = 3
TIMEOUT = 10.0
"""Seconds for one try."""
_PAUSE = 1.0
_MOST = 200
"""The most findings in one message; further ones are counted."""


def tell(
    warehouse: Warehouse, url: str, found: Sequence[Finding], *, warehouse_name: str
) -> str | None:
    """Post what fails to `url`, unless that is what was told last; returns the sentence on why it
    could not be told. The sentence names only the server, since the rest of the address may be a
    secret."""
    note = Path(warehouse.checkpoint("alerted.json"))
    names = "\n".join(sorted(f"{finding.check} {finding.on}" for finding in found))
    state = hashlib.sha256(names.encode()).hexdigest() if found else ""
    # A damaged note does not say what was told last.
    told = read_note(note).get("state") if note.exists() else ""
    if told == state:
        return None
    body = {
        "at": now().isoformat(),
        "place": warehouse_name,
        "failing": [finding._asdict() for finding in found[:_MOST]],
        "count": len(found),
        "text": f"{warehouse_name}: "
        + ("; ".join(f.text for f in found[:10]) or "every check passes"),
    }
    error = _post(url, json.dumps(body).encode())
    if error is None:
        write_whole(note, json.dumps({"state": state}).encode())
        return None
    return f"the webhook at {urlsplit(url).hostname} could not be told: {error}"


class _Stays(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which would be a GET without the message."""

    def redirect_request(self, *_: object) -> None:
        """None: the answer then counts as an error."""


def _post(url: str, body: bytes) -> str | None:
    """Why it failed; None if the server accepted it."""
    headers = {"Content-Type": "application/json", "User-Agent": "delta-cdc-ingest"}
    opener = urllib.request.build_opener(_Stays)
    error = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(_PAUSE * 2 ** (attempt - 1))
        request = urllib.request.Request(url, data=body, headers=headers, method="POST")
        try:
            with opener.open(request, timeout=TIMEOUT):
                return None
        except urllib.error.HTTPError as failed:
            error = f"it answered {failed.code}"
            if failed.code < 400:
                error += ", a redirect: give the address that it leads to"
                break
            if failed.code < 500 and failed.code not in (408, 429):
                break
        except (OSError, HTTPException, ValueError) as failed:
            reason = getattr(failed, "reason", failed)
            error = str(getattr(reason, "strerror", None) or type(reason).__name__)
    return error
