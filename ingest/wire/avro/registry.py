"""Schemas by their id: from a registry over HTTP, or from a folder of files.

A schema never changes under its id, so each process asks for it once. A registry that does not
answer is asked again only after a pause, which grows; one that answers with many misses is not
asked for a while. Meanwhile, a message whose schema is not at hand is refused at once, and replayed
when the registry is back. So a stream neither stops nor waits.

Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.memo import Memo

SchemaTexts = tuple[str, ...]
"""A schema's text, which comes last, behind the texts of the schemas that it refers to."""

_ATTEMPTS = 3
_PAUSE = 0.1  # seconds before the second attempt; twice as long before each further one
_LONGEST_SILENCE = 60.0
_MISS_KEPT = 30.0
_MOST_MISSES = 100
"""How many ids a registry may not know within _MISS_KEPT seconds. With more than that it seems not
to be the producer's registry, and each miss is a request."""
_DEEPEST = 20
_MOST_REFERENCES = 100
_LARGEST = 16 * 2**20
_NOT_ITS_IDS = (
    f"it did not know {_MOST_MISSES} ids within {_MISS_KEPT:.0f} seconds; check that "
    "options.schema_registry is the producer's"
)
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_MAY_PASS = {408, 425, 429, 500, 502, 503, 504}


class SchemaSource(Protocol):
    """Where schemas come from."""

    def schema(self, id: int) -> SchemaTexts:
        """The schema of an id. Raises unknown_schema_id if it cannot be had now."""


class Access(NamedTuple):
    """A registry's address and its credentials: a user's name and password, or a token.

    `timeout` is in seconds, for one answer.
    """

    url: str
    user: str = ""
    password: str = ""
    token: str = ""
    timeout: float = 5.0

    def __repr__(self) -> str:
        # secrets stay out of errors and logs
        return f"Access({self.url.rpartition('@')[2]})"


class SchemaFolder:
    """Schema files named `ID.avsc`."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def schema(self, id: int) -> SchemaTexts:
        """The text of the file of an id."""
        file = self._folder / f"{id}.avsc"
        try:
            return (file.read_text(encoding="utf-8"),)
        except (OSError, UnicodeDecodeError) as error:
            raise _unknown(
                f"expected the schema of id {id} in {file}, got {self._why(error)}: put the schema"
                " there, or correct options.schema_folder"
            ) from None

    def _why(self, error: OSError | UnicodeDecodeError) -> str:
        if isinstance(error, UnicodeDecodeError):
            return "bytes that are not UTF-8"
        if isinstance(error, FileNotFoundError):
            return "no such file" if self._folder.is_dir() else "no such folder"
        return f"{type(error).__name__}: {error.strerror}"


class _Reference(msgspec.Struct):
    subject: str
    version: int


class _Answer(msgspec.Struct):
    schema: str
    schemaType: str | None = None
    references: list[_Reference] | None = None


_ANSWER = msgspec.json.Decoder(_Answer)
_known: Memo[tuple[str, int], SchemaTexts] = Memo(most=10_000)


class Registry:
    """A schema registry that speaks Confluent's protocol, Apicurio's and Redpanda's included."""

    def __init__(self, access: Access) -> None:
        self._access = access
        parts = urlsplit(access.url)
        host = parts.netloc.rpartition("@")[2]
        self._web = parts.scheme in ("http", "https") and bool(host)
        self._url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": _ACCEPT, **_authorization(access, parts.username)}
        self._silent_until = 0.0
        self._silence = 0.0
        self._references = 0
        self._reason = ""
        self._missing: dict[int, float] = {}

    def schema(self, id: int) -> SchemaTexts:
        """The schema of an id and the schemas that it refers to."""
        found = _known.get((self._url, id))
        if found is not None:
            return found
        self._refuse_at_once(id)
        self._references = 0
        read: dict[str, str] = {}
        try:
            self._collect(f"/schemas/ids/{id}", read, 0)
        except _NotThere as error:
            now = time.monotonic()
            self._missing = {i: until for i, until in self._missing.items() if until > now}
            if len(self._missing) >= _MOST_MISSES:
                self._fall_silent(_NOT_ITS_IDS, _MISS_KEPT)
                self._missing.clear()
            self._missing[id] = now + _MISS_KEPT
            raise _unknown(f"expected the schema of id {id} in {self._url}, got {error}") from None
        except _Unreachable as error:
            self._fall_silent(str(error), min(max(2 * self._silence, 1.0), _LONGEST_SILENCE))
            raise self._silent(id) from None
        self._silence = 0.0
        _known[self._url, id] = texts = tuple(dict.fromkeys(read.values()))
        return texts

    def _refuse_at_once(self, id: int) -> None:
        if not self._web:
            raise _unknown(
                f"expected the registry as http:// or https://, got {self._url or 'none'}; "
                f"it is asked for the schema of id {id}"
            )
        now = time.monotonic()
        if now < self._silent_until:
            raise self._silent(id)
        until = self._missing.get(id)
        if until is not None:
            if now < until:
                raise _unknown(f"expected the schema of id {id} in {self._url}, got none just now")
            del self._missing[id]

    def _fall_silent(self, reason: str, seconds: float) -> None:
        self._silence, self._reason = seconds, reason
        self._silent_until = time.monotonic() + seconds

    def _silent(self, id: int) -> DecodeError:
        return _unknown(
            f"expected the schema of id {id} from {self._url}, {self._reason}; "
            "replay when the registry answers"
        )

    def _collect(self, path: str, read: dict[str, str], depth: int) -> None:
        """Adds the schema at `path` behind the schemas that it refers to; none is asked for
        twice."""
        self._references += 1
        if depth > _DEEPEST or self._references > _MOST_REFERENCES:
            raise _NotThere("more references than can be followed")
        raw = self._get(path)
        try:
            answer = _ANSWER.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _Unreachable(f"which answers otherwise than a registry does: {error}") from None
        if (answer.schemaType or "AVRO") != "AVRO":
            raise _NotThere(f"a schema of type {answer.schemaType}")
        for reference in answer.references or ():
            subject = quote(reference.subject, safe="")
            other = f"/subjects/{subject}/versions/{reference.version}"
            if other not in read:
                self._collect(other, read, depth + 1)
        read[path] = answer.schema

    def _get(self, path: str) -> bytes:
        # a registry already in doubt is asked once
        attempts = 1 if self._silence else _ATTEMPTS
        for attempt in range(attempts):
            if attempt:
                time.sleep(_PAUSE * 2 ** (attempt - 1))
            try:
                return _answer(self._url + path, self._headers, self._access.timeout)
            except _Unreachable as error:
                if attempt == attempts - 1 or not error.may_pass:
                    raise
        raise AssertionError("there is at least one attempt")


class _NotThere(Exception):
    """The registry has no such schema."""


class _Unreachable(Exception):
    """The registry gave no answer of use. `may_pass`: the next attempt may get one."""

    def __init__(self, text: str, *, may_pass: bool = False) -> None:
        self.may_pass = may_pass
        super().__init__(text)


def _authorization(access: Access, user: str | None) -> Mapping[str, str]:
    if access.token:
        return {"Authorization": f"Bearer {access.token}"}
    name, password = access.user, access.password
    if not name and user:
        name, password = unquote(user), unquote(urlsplit(access.url).password or "")
    if not name:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


def _answer(url: str, headers: Mapping[str, str], timeout: float) -> bytes:
    """The body of an answer 200. Raises _NotThere for 404, else _Unreachable."""
    # takes a twentieth of a second to import, and few sources need it
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import FTPHandler, Request, build_opener

    class NoFtp(FTPHandler):
        """A redirect leads from web to web."""

        def ftp_open(self, req: Request) -> Any:
            raise ValueError

    request = Request(url)
    for name, value in headers.items():
        # not sent on to where a redirect leads
        request.add_unredirected_header(name, value)
    deadline = time.monotonic() + timeout
    try:
        with build_opener(NoFtp).open(request, timeout=timeout) as response:
            return _body(response, deadline)
    except HTTPError as error:
        with error:
            if error.code == 404:
                raise _NotThere("none (404)") from None
            may_pass = error.code in _MAY_PASS
            hint = "; check its user and password or token" if error.code in (401, 403) else ""
            raise _Unreachable(f"which answers {error.code}{hint}", may_pass=may_pass) from None
    except (OSError, HTTPException, ValueError) as error:
        # the system's own words differ from machine to machine
        reason = getattr(error, "reason", error)
        kind = type(reason if isinstance(reason, Exception) else error).__name__
        raise _Unreachable(f"which cannot be reached ({kind})", may_pass=True) from None


def _body(response: Any, deadline: float) -> bytes:
    pieces = []
    size = 0
    while piece := response.read1(65_536):
        pieces.append(piece)
        size += len(piece)
        if size > _LARGEST:
            raise _Unreachable(f"whose answer is longer than {_LARGEST} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(pieces)


def _unknown(text: str) -> DecodeError:
    return DecodeError(Code.UNKNOWN_SCHEMA_ID, text)
