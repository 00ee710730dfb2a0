"""What `make test-live` says at its end beside what passed."""

from __future__ import annotations

import pytest

SAID = pytest.StashKey[list[str]]()
"""Sentences of the tests."""
