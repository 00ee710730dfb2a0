"""Who runs a command."""

from __future__ import annotations

import getpass
import os

import pytest

from pipelines.telemetry.users import machine_user


def test_a_user_without_a_name_is_told_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that runs as a number of its own: neither the variables nor the user database
    have a name."""

    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises((KeyError, OSError)):
        getpass.getuser()
    assert machine_user() == f"uid {os.getuid()}"
    monkeypatch.setenv("USER", "ada")
    assert machine_user() == "ada"
