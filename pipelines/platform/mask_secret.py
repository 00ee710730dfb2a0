"""The secret of masks, where SQL finds it: a view of one row, in the memory of one session.

Plans, event logs and Spark's pages name the columns of a view and never its rows, and no statement
contains the secret itself.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from ingest.config.load import Config
from ingest.config.masks import MaskSecret
from ingest.config.routes import Route
from ingest.sql.masks import Masking


def maskings(config: Config, route: Route) -> dict[str, Masking]:
    """How the columns of a target are masked, by the names under which that is declared."""
    found = {}
    for name, mask in route.masks.items():
        domain = f"{route.target}.{name}".lower()
        secret = _relation(config.mask_secret) if mask.mode != "null" else ""
        found[name] = Masking(mask.mode, mask.type, domain, secret)
    return found


def _relation(secret: MaskSecret | None) -> str:
    assert secret is not None, "a configuration whose masks take a secret has one"
    return f"_ingest_mask_{secret.name}"


def offer_secret(session: SparkSession, secret: MaskSecret | None) -> None:
    """Make the secret known to the session's SQL."""
    name = _relation(secret)
    assert secret is not None
    if not session.catalog.tableExists(name):
        row = [(bytearray(secret.inner), bytearray(secret.outer))]
        frame = session.createDataFrame(row, "pad_in binary, pad_out binary")
        frame.createOrReplaceTempView(name)
