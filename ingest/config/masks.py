"""What gold may hold of a column: its values, or something in their place.

`hash` is the HMAC-SHA256 of a value's canonical text, in hex: equal values have equal hashes in all
tables, so that they can be joined. `tokens` are equal for equal values of one column of one target
and say nothing beyond that. Both need a secret, because without one anybody who guesses a value
could confirm it. The configuration names where the secret is found and never contains it. `null` is
a declared NULL.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from ingest.config.mistakes import shown
from ingest.config.spark_types import spark_column_type
from ingest.config.yaml import Scopes, kept_secret

MaskMode = Literal["hash", "null", "tokens"]
_MODES: tuple[MaskMode, ...] = get_args(MaskMode)
_REFERENCE = re.compile(
    r"env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|file:(?P<file>.+)|secret:(?P<scope>[^/]+)/(?P<key>.+)"
)
_KEYS = "mask: hash | null | tokens, type: …"
_BLOCK = 64
_SHORTEST = 16
_EXPECTED = (
    "expected where the secret is found, `env:NAME`, `file:PATH` or `secret:SCOPE/KEY`, got "
    "something else (not shown here, lest it be the secret itself)"
)


class Mask(NamedTuple):
    """What stands in place of a column's values. `type`: the type by which they are spelled before
    they are hashed, so that `007` and `7` are one number; None: as they came."""

    mode: MaskMode
    type: str | None = None


class ColumnOptions(NamedTuple):
    """What a tables file says of a column: its Spark type, and how it is masked."""

    type: str | None = None
    mask: MaskMode | None = None

    @property
    def held(self) -> str | None:
        """The type that the column has in gold; None: whatever type it comes with."""
        return "string" if self.mask in ("hash", "tokens") else self.type


def _got(given: Any) -> str:
    """What is written about a column, as a mistake names it."""
    if isinstance(given, dict):
        return next((f"the key `{key}`" for key in given if key not in ("type", "mask")), "{}")
    return "null" if given is None else "a list" if isinstance(given, list) else f"`{given}`"


def column_options(given: Any) -> ColumnOptions:
    """What is written about a column: a type, or keys with values; raises ValueError."""
    if isinstance(given, ColumnOptions):
        return given
    if isinstance(given, str) and given:
        return ColumnOptions(spark_column_type(given))
    if not isinstance(given, dict) or not given or not given.keys() <= {"type", "mask"}:
        raise ValueError(f"expected a Spark type, or {{{_KEYS}}}, got {_got(given)}")
    mask: MaskMode | None = None
    if "mask" in given:
        # In YAML the word null is no text.
        written = "null" if given["mask"] is None else given["mask"]
        mask = next((mode for mode in _MODES if mode == written), None)
        if mask is None:
            listed = f"{', '.join(_MODES[:-1])} or {_MODES[-1]}"
            raise ValueError(f"`mask`: expected {listed}, got {shown(written)}")
    type_ = given.get("type")
    if "type" in given and (not isinstance(type_, str) or not type_):
        raise ValueError("`type`: expected a Spark type")
    return ColumnOptions(spark_column_type(type_) if type_ else None, mask)


@dataclass(frozen=True)
class MaskSecret:
    """The secret of `hash` and `tokens`, as HMAC takes it: a key and two pads made of it. `name`
    tells it from another secret without giving it away."""

    name: str
    inner: bytes = field(repr=False)
    outer: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: bytes) -> MaskSecret:
        """As RFC 2104 has it."""
        key = hashlib.sha256(secret).digest() if len(secret) > _BLOCK else secret
        key = key.ljust(_BLOCK, b"\0")
        name = hmac.new(secret, b"ingest: the name of a secret", hashlib.sha256).hexdigest()[:12]
        return cls(name, bytes(b ^ 0x36 for b in key), bytes(b ^ 0x5C for b in key))

    def digest(self, text: str) -> str:
        """HMAC-SHA256 of a text, in hex."""
        inner = hashlib.sha256(self.inner + text.encode()).digest()
        return hashlib.sha256(self.outer + inner).hexdigest()


def reference(given: str) -> str:
    """Where a secret is found, as written; raises ValueError, which never repeats what it was
    given."""
    if _REFERENCE.fullmatch(given) is None:
        raise ValueError(_EXPECTED)
    return given


def found_secret(
    given: str, *, environ: Mapping[str, str], root: Path, scopes: Scopes | None
) -> MaskSecret:
    """The secret that a reference leads to; raises ValueError if it leads to none."""
    found = _REFERENCE.fullmatch(given)
    assert found is not None, "the settings have been checked"
    if found["name"]:
        place = f"the environment variable {found['name']}"
        try:
            text = environ.get(found["name"], "").encode()
        except UnicodeEncodeError:
            wanted = f"expected a secret in {place}"
            raise ValueError(f"{wanted}, got bytes that are no UTF-8") from None
    elif found["scope"]:
        place = f"{found['scope']}/{found['key']} of the secret scopes"
        try:
            text = kept_secret(found["scope"], found["key"], scopes).encode()
        except LookupError as error:
            raise ValueError(f"expected a secret in {place}, got: {error}") from None
    else:
        place = f"the file {root / found['file']}"
        try:
            text = (root / found["file"]).read_bytes().rstrip(b"\r\n")
        except OSError as error:
            raise ValueError(f"expected a secret in {place}, got: {error.strerror}") from None
        except ValueError:
            wanted = f"expected a secret in {place}"
            raise ValueError(f"{wanted}, got: a path with a NUL in it") from None
    if len(text) < _SHORTEST:
        raise ValueError(
            f"expected a secret of at least {_SHORTEST} bytes in {place}, got {len(text) or 'none'}"
        )
    return MaskSecret.of(text)
