"""The walls of the house, proved from the imports and the names of what is there."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = sorted((ROOT / "ingest").rglob("*.py"))
EDGE = sorted((ROOT / "pipelines").rglob("*.py"))
LONGEST = 300  # lines
BANNED = re.compile(
    r"(^|_)(utils?|helpers?|common|managers?|factory|misc)(_|$)|^(base|abstract)(_|$)"
)
BANNED_CLASS = re.compile(r"^(Base|Abstract)[A-Z]|(Manager|Factory|Helper|Utils?)$")
# What opens a session or belongs to one; the core only takes columns and DataFrames.
SESSION_NAMES = {"SparkSession", "SparkContext", "SparkConf", "SQLContext"}
SESSION_ATTRIBUTES = {"sparkSession", "sparkContext", "getActiveSession", "_jvm", "_jdf", "rdd"}
MACHINE = re.compile(
    r"(?<![\w.])/(?:work|home|root|Users)/\w"  # someone's machine
    r"|repo1?\.maven|maven\.org|pypi\.org|pythonhosted\.org|--(?:extra-)?index-url|--find-links"
)


def imports(file: Path) -> list[tuple[str, str | None]]:
    """Every (module, name) that a file imports anywhere, lazily or not; name None for a module."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found += [(module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            named = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            found += [(name, None) for name in named if isinstance(name, str)]
    return found


def roots(file: Path) -> set[str]:
    """The top-level packages a file imports from."""
    return {module.split(".")[0] for module, _ in imports(file)}


def breaches_of_core(file: Path) -> list[str]:
    """What a file of `ingest/` may not do, each as a line of text."""
    found = [f"imports {root}" for root in sorted(roots(file) & {"pipelines", "delta", "tests"})]
    for module, name in imports(file):
        if module.startswith("."):
            found.append(f"relative import of {module}{name}")
        if module.split(".")[0] == "pyspark" and (
            name in SESSION_NAMES or re.search(r"\.(session|connect|context|streaming)\b", module)
        ):
            found.append(f"imports {module}.{name}")
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in SESSION_NAMES | SESSION_ATTRIBUTES:
            found.append(f"line {node.lineno} uses .{node.attr}")
    return found


def test_there_is_something_to_look_at() -> None:
    assert ROOT / "ingest" / "errors.py" in CORE
    assert ROOT / "pipelines" / "session.py" in EDGE


@pytest.mark.parametrize("file", CORE, ids=lambda file: str(file.relative_to(ROOT)))
def test_core_knows_neither_edge_nor_session(file: Path) -> None:
    assert breaches_of_core(file) == []


def test_a_breach_is_seen(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from . import order\n"
        "def f(frame):\n"
        "    import delta.tables\n"
        "    from pipelines import session\n"
        "    from pyspark.sql import SparkSession\n"
        "    from pyspark.sql.connect.session import x\n"
        "    return frame.sparkSession, importlib.import_module('tests.x')\n"
    )
    assert breaches_of_core(wrong) == [
        "imports delta",
        "imports pipelines",
        "imports tests",
        "relative import of .order",
        "imports pyspark.sql.SparkSession",
        "imports pyspark.sql.connect.session.x",
        "line 7 uses .sparkSession",
    ]


def test_delta_is_imported_by_tables_alone() -> None:
    importers = {file.relative_to(ROOT).as_posix() for file in EDGE if "delta" in roots(file)}
    assert importers <= {"pipelines/tables.py"}


@pytest.mark.parametrize("file", CORE + EDGE, ids=lambda file: str(file.relative_to(ROOT)))
def test_files_are_short_and_named_for_what_they_hold(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").count("\n")
    assert lines <= LONGEST
    assert not BANNED.search(file.stem)
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    classes = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    assert [name for name in classes if BANNED_CLASS.search(name)] == []


def test_names_that_are_banned() -> None:
    names = ["utils", "json_utils", "base", "base_format", "baseline", "order", "commonly"]
    assert [name for name in names if BANNED.search(name)] == names[:4]


def test_no_machine_or_registry_is_named() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    named = []
    for name in listed.stdout.decode().split("\0"):
        file = ROOT / name
        if not name or not file.is_file() or file == Path(__file__):
            continue
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE.search(line) and not (name == "Makefile" and "--no-emit-index-url" in line):
                named.append(f"{name}:{number}: {line.strip()[:80]}")
    assert named == []
