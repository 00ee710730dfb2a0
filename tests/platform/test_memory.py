"""How much memory a process may use: the machine's, or what its control group leaves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.platform.java import allowed_memory

GB = 2**30
MACHINE = allowed_memory(Path("/nowhere"), Path("/nowhere"))


@pytest.mark.parametrize(
    ("own", "bounds"),
    [
        ("0::/", {"memory.max": str(GB)}),
        ("0::/ingest.slice/run.service", {"ingest.slice/run.service/memory.max": str(GB)}),
        (
            "0::/ingest.slice/run.service",
            {"ingest.slice/run.service/memory.max": "max", "ingest.slice/memory.max": str(GB)},
        ),
        ("5:cpu,memory:/pods/7", {"memory/pods/7/memory.limit_in_bytes": str(GB)}),
        # In a container the path is the host's, and its own group is the root.
        ("5:memory:/pods/7\n0::/", {"memory/memory.limit_in_bytes": str(GB)}),
    ],
    ids=["a pod", "a service", "the slice of a service", "version 1", "version 1, a container"],
)
def test_a_bound_holds(own: str, bounds: dict[str, str], tmp_path: Path) -> None:
    """Otherwise Java takes a quarter of the machine's memory, and the pod is killed for it."""
    for name, text in bounds.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    (tmp_path / "own").write_text(f"{own}\n")
    assert allowed_memory(tmp_path / "own", tmp_path / "groups") == GB


@pytest.mark.parametrize("text", ["max", str(2**63 - 4096), "", "?"])
def test_without_a_bound_it_is_the_machines(text: str, tmp_path: Path) -> None:
    (tmp_path / "own").write_text("0::/\n")
    (tmp_path / "memory.max").write_text(text)
    assert allowed_memory(tmp_path / "own", tmp_path) == MACHINE > 0
