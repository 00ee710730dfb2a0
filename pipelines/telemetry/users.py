"""Who runs a command, and decides by it."""

from __future__ import annotations

import getpass
import os

from ingest.sql.query import one_row
from pipelines.platform.warehouse import Warehouse


def machine_user() -> str:
    """The user of the operating system. One without a name, as that of a container may be, is told
    by its number, `uid 1000`."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def user(warehouse: Warehouse) -> str:
    """The user of the platform where its catalog has the tables, else `machine_user`."""
    if warehouse.local:
        return machine_user()
    found = warehouse.session.sql(one_row(["current_user()"])).first()
    assert found is not None
    return str(found[0])
