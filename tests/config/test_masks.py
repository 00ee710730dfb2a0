"""Masks in a tables file, and where their secret is found."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest

from ingest.config.load import Config, load
from ingest.config.masks import Mask, MaskSecret
from ingest.config.modes import TargetContract, masks_of
from ingest.errors import ConfigError

PEPPER = "a pepper that nobody guesses"
SOURCE = "name: crm\nformat: canal\nfiles: {path: 'landing/*.jsonl'}\n"
ENVIRON = {"PEPPER": PEPPER, "NO_TEXT": "\udcff" * 20}


def config(folder: Path, entry: str, *, settings: str = "mask_secret: env:PEPPER\n") -> Config:
    for name, text in {
        "ingest.yml": settings,
        "sources/crm.yml": SOURCE,
        "tables/crm.yml": f"source: crm\ntables:\n  - {{from: '*', {entry}}}\n",
    }.items():
        file = folder / "conf" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return load(folder / "conf", environ=ENVIRON, scopes=kept)


def kept(scope: str, key: str) -> str:
    """What a platform keeps in its secret scopes."""
    if (scope, key) == ("masks", "pepper"):
        return PEPPER
    raise LookupError("no such secret")


def mistakes(folder: Path, entry: str, *, settings: str = "mask_secret: env:PEPPER\n") -> str:
    with pytest.raises(ConfigError) as raised:
        config(folder, entry, settings=settings)
    return "\n".join(map(str, raised.value.mistakes))


def test_masks_of_a_route(tmp_path: Path) -> None:
    masks = "id: {mask: hash, type: BIGINT}, Email: {mask: tokens}, tel: {mask: null, type: int}"
    route = config(tmp_path, f"columns: {{{masks}, price: 'decimal(12,2)'}}").route(
        "crm", db="shop", schema=None, table="person"
    )
    assert route is not None
    assert route.columns == {
        **{"id": "string", "Email": "string"},
        **{"tel": "int", "price": "decimal(12,2)"},
    }
    assert route.masks == {
        "id": Mask("hash", "bigint"),
        "Email": Mask("tokens"),
        "tel": Mask("null", "int"),
    }
    name = MaskSecret.of(PEPPER.encode()).name
    assert masks_of(route) == (
        *("Email tokens", "id hash of bigint", "tel null of int"),
        f"by secret {name}",
    )
    made = TargetContract.by(route, "scd1", ("id",))
    assert made.differs(made._replace(masks=())) and not made.differs(made._replace(deletes=None))


@pytest.mark.parametrize("secret", [b"a pepper that nobody guesses", b"x" * 64, b"y" * 200])
def test_the_digest_is_hmac(secret: bytes) -> None:
    expected = hmac.new(secret, "Zoë".encode(), hashlib.sha256).hexdigest()
    made = MaskSecret.of(secret)
    assert made.digest("Zoë") == expected
    assert secret.decode() not in repr(made)


def test_a_mask_by_null_takes_no_secret(tmp_path: Path) -> None:
    made = config(tmp_path, "columns: {tel: {mask: null}}", settings="")
    route = made.route("crm", db="shop", schema=None, table="person")
    assert route is not None and (route.masks, route.mask_secret) == ({"tel": Mask("null")}, None)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("columns: {a: {mask: sha}}", "`mask`: expected hash, null or tokens, got `sha`"),
        ("columns: {a: {masks: hash}}", "expected a Spark type, or {mask: hash | null | tokens"),
        ("columns: {a: {mask: hash, type: sting}}", "nearest: string"),
        ("columns: {a: {type: 5, mask: hash}}", "`type`: expected a Spark type"),
        ("columns: {a: {}}", "expected a Spark type, or {mask:"),
        ("columns: {a: {masks: hash}}", "type: …}, got the key `masks`"),
        ("columns: {a: null}", "type: …}, got null"),
        ("columns: {a: 5}", "type: …}, got `5`"),
        (
            "keys: [ID], columns: {id: {mask: tokens}}",
            "`ID` is a key column, which can only be masked by hash, got `tokens`",
        ),
        (
            "sequence_by: at, columns: {at: {mask: null}}",
            "`at` orders the rows, whose `_pos` shows its values; it cannot be masked",
        ),
        (
            "exclude: [a], columns: {A: {mask: null}}",
            "`a` is excluded, which leaves nothing to mask; take one of them away",
        ),
    ],
)
def test_masks_that_are_refused(tmp_path: Path, entry: str, expected: str) -> None:
    assert expected in mistakes(tmp_path, entry)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", "a mask by hash or tokens takes a secret; set `mask_secret` in ingest.yml"),
        ("mask_secret: env:NONE\n", "in the environment variable NONE, got none"),
        ("mask_secret: file:none\n", "none, got: No such file or directory"),
        ('mask_secret: "file:a\\0b"\n', "got: a path with a NUL in it"),
        ("mask_secret: env:NO_TEXT\n", "environment variable NO_TEXT, got bytes that are no UTF-8"),
        ("mask_secret: file:short\n", "at least 16 bytes"),
        (
            "mask_secret: secret:masks/none\n",
            "masks/none of the secret scopes, got: no such secret",
        ),
    ],
)
def test_a_secret_that_is_not_there(tmp_path: Path, settings: str, expected: str) -> None:
    (tmp_path / "short").write_text("tooshort\n")
    found = mistakes(tmp_path, "columns: {a: {mask: hash}}", settings=settings)
    assert expected in found and "tooshort" not in found


def test_a_secret_in_the_settings_is_refused_and_not_repeated(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "target: a", settings=f"mask_secret: {PEPPER}\n")
    assert "`env:NAME`, `file:PATH` or `secret:SCOPE/KEY`" in found and PEPPER not in found


def test_a_secret_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "pepper").write_text(f"{PEPPER}\n")
    found = config(tmp_path, "columns: {a: {mask: hash}}", settings="mask_secret: file:pepper\n")
    assert found.mask_secret == MaskSecret.of(PEPPER.encode())
    assert PEPPER not in repr(found)


def test_a_secret_in_a_scope(tmp_path: Path) -> None:
    settings = "mask_secret: secret:masks/pepper\n"
    found = config(tmp_path, "columns: {a: {mask: hash}}", settings=settings)
    assert found.mask_secret == MaskSecret.of(PEPPER.encode())
