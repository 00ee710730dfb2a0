"""The walls of the house, proved from the imports and the names of what is there."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from ingest.ddl.changes import SchemaChange

ROOT = Path(__file__).parent.parent
CORE = sorted((ROOT / "ingest").rglob("*.py"))
EDGE = sorted((ROOT / "pipelines").rglob("*.py"))
LONGEST = 60  # lines of a function
FOLDER = range(3, 21)  # files of a folder
# What imports goes downward: a package, or a file beside the packages of `ingest/`, knows only what
# stands in the lines above its own.
FLOORS = (
    ("ingest.addresses", "ingest.codes", "ingest.memo", "ingest.names", "ingest.position"),
    ("ingest.errors",),
    ("ingest.events",),
    ("ingest.values",),
    ("ingest.ddl", "ingest.limits", "ingest.wire.avro"),
    ("ingest.files",),
    ("ingest.wire",),
    (
        "ingest.formats.dts",
        "ingest.formats.oceanbase",
        "ingest.formats.oms",
        "ingest.formats.ticdc",
        "ingest.identity",
    ),
    ("ingest.formats.canal", "ingest.formats.dataworks", "ingest.formats.debezium", "ingest.sql"),
    (
        "ingest.sql.fold",
        "ingest.sql.history",
        "ingest.sql.ledger",
        "ingest.sql.rejects",
        "ingest.sql.tables",
    ),
    ("ingest.sql.counts", "ingest.sql.privacy"),
    ("ingest.fold", "ingest.formats"),
    ("ingest.config",),
    ("ingest.decode", "pipelines.platform", "pipelines.terminal"),
    ("ingest",),
    ("pipelines.bronze.amqp", "pipelines.bronze.kafka_api", "pipelines.bronze.remoting"),
    ("pipelines.bronze.by_offset",),
    ("pipelines.bronze", "pipelines.targets", "pipelines.telemetry"),
    ("pipelines.silver",),
    ("pipelines.apply", "pipelines.ledger"),
    ("pipelines.gold",),
    ("pipelines.catalogue", "pipelines.operations", "pipelines.privacy", "pipelines.scaffold"),
    ("pipelines.runs",),
    ("pipelines.library", "pipelines.reporting"),
    ("pipelines.web",),
    ("pipelines.cli", "pipelines"),
    ("pipelines.documentation",),
)
FLOOR_OF = {unit: number for number, units in enumerate(FLOORS) for unit in units}
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
    assert ROOT / "pipelines" / "platform" / "session.py" in EDGE


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


def test_delta_is_imported_by_the_warehouse_alone() -> None:
    importers = {file.relative_to(ROOT).as_posix() for file in EDGE if "delta" in roots(file)}
    assert importers <= {"pipelines/platform/warehouse.py"}


def module_of(file: Path) -> str:
    """The dotted name of a file."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def unit_of(file: Path) -> str:
    """The package that a file is in; the file itself where it stands beside the packages."""
    parent = file.parent.relative_to(ROOT)
    return module_of(file) if len(parent.parts) == 1 else ".".join(parent.parts)


READERS = {"ingest/formats/dts/values.py", "ingest/formats/oceanbase/values.py"}
"""Readers of binary values, all called as `read(data, at, words, warnings)`."""
CALLED_BACK = {"texts"}
"""`Rows.texts` is a `WriteTexts`."""

FILES = {module_of(file): file for file in CORE + EDGE}


def own_imports(file: Path, *, types: bool = True) -> set[str]:
    """The modules of the house that a file imports; without `types`, those that it needs to run."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    named = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and (types or node not in named):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in FILES else node.module)
    return found & set(FILES)


@pytest.mark.parametrize("file", CORE + EDGE, ids=lambda file: str(file.relative_to(ROOT)))
def test_imports_go_downward(file: Path) -> None:
    floor = FLOOR_OF[unit_of(file)]
    upward = {
        module
        for module in own_imports(file)
        if unit_of(FILES[module]) != unit_of(file) and FLOOR_OF[unit_of(FILES[module])] >= floor
    }
    assert upward == set()


def test_no_file_needs_itself() -> None:
    needs = {module: own_imports(file, types=False) for module, file in FILES.items()}
    while free := [module for module, others in needs.items() if not others & set(needs)]:
        for module in free:
            del needs[module]
    assert sorted(needs) == []


def test_a_folder_can_be_held_in_mind() -> None:
    folders = {file.parent for file in CORE + EDGE} - {ROOT / "pipelines"}
    counts = {folder: len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: count for folder, count in counts.items() if count not in FOLDER} == {}


@pytest.mark.parametrize("file", CORE + EDGE, ids=lambda file: str(file.relative_to(ROOT)))
def test_functions_are_short_and_files_named_for_what_they_hold(file: Path) -> None:
    assert not BANNED.search(file.stem)
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    classes = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    assert [name for name in classes if BANNED_CLASS.search(name)] == []
    long = {
        f"{file.relative_to(ROOT).as_posix()} {node.name}"
        for node in nodes
        if isinstance(node, ast.FunctionDef) and lines_of(node) > LONGEST
    }
    assert long == set()


@pytest.mark.parametrize("file", CORE + EDGE, ids=lambda file: str(file.relative_to(ROOT)))
def test_arguments_beyond_the_third_are_named(file: Path) -> None:
    if file.relative_to(ROOT).as_posix() in READERS:
        return
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    many = [node.name for node in nodes if positional(node) > 3 and not is_called_back(node)]
    assert many == []


def is_called_back(node: ast.FunctionDef) -> bool:
    """Whether someone else says how the function is called: click names all arguments of a verb."""
    verb = any("command" in ast.unparse(decorator) for decorator in node.decorator_list)
    return verb or node.name in CALLED_BACK


def positional(node: ast.FunctionDef) -> int:
    """How many arguments a function takes by their place, `self` not counted."""
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"])) if node.args.vararg is None else 0


SCHEMA_CHANGES = {change.__name__ for change in get_args(SchemaChange)}


@pytest.mark.parametrize("file", CORE + EDGE, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_new_kind_of_schema_change_is_missed_nowhere(file: Path) -> None:
    """Who tells them apart says what becomes of each: the type checker finds who does not."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Match):
            patterns = [inner for case in node.cases for inner in ast.walk(case.pattern)]
            classes = {ast.unparse(p.cls) for p in patterns if isinstance(p, ast.MatchClass)}
            last = ast.unparse(node.cases[-1])
            ends = re.fullmatch(r"case _:\s+assert_never\(.+\)", last)
            assert ends or not classes & SCHEMA_CHANGES, f"line {node.lineno}"


def test_one_module_alters_targets() -> None:
    """A run, an approval and who finishes what was killed alter a table by the same code."""
    alter, definition = "ingest.sql.tables.alter", "ingest.sql.tables.definition"
    assert importing({(alter, "commits"), (alter, "statements")}) == {"pipelines.ledger.alter"}
    # `_deleted_at` is no column of a source.
    assert importing({(definition, "add_columns")}) == {"pipelines.targets.table"}


def importing(names: set[tuple[str, str]]) -> set[str]:
    """The modules of the edge that import one of these names."""
    return {module_of(file) for file in EDGE if names & {*imports(file)}}


CLAUSE = re.compile(
    r"\b(SELECT\s|FROM\s+\S|JOIN\s|WHERE\s|GROUP BY|ORDER BY|PARTITION BY|CASE WHEN|WITH \w+ AS)"
    r"|\bLIMIT \{\}"
    r"|\b(MERGE INTO|INSERT (INTO|OVERWRITE)|DELETE FROM|UPDATE \S+ SET|UNION ALL|VALUES \()"
    r"|\b(ALTER|CREATE|DESCRIBE|SHOW|REORG) [A-Z]|\bDROP (TABLE|VIEW)|\b(OPTIMIZE|VACUUM) \{\}"
)
NO_QUERIES = {
    "ingest.ddl.alter": "words of the statements that are read",
    "ingest.ddl.statements": "words of the statements that are read",
    "ingest.formats.debezium.envelope": "a sentence for people",
    "ingest.formats.wal2json": "a sentence for people",
    "pipelines.catalogue.advice": "sentences for people",
    "pipelines.catalogue.mysql": "asked of the source, in its own SQL",
    "pipelines.catalogue.postgresql": "asked of the source, in its own SQL",
    "pipelines.cli.examples": "commands for people",
    "pipelines.platform.class_archive": "a program that a process of its own runs",
}
"""Files with such words in texts that are no queries of ours."""


def texts(tree: ast.Module) -> list[tuple[int, str]]:
    """The texts of a file, docstrings left out, with their lines; `{}` for what is put in."""
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    inside |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "{}" for p in node.values)
            found.append((node.lineno, "".join(map(str, parts))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in inside:
                found.append((node.lineno, node.value))
    return found


def queries(file: Path) -> list[str]:
    """The texts of a file that have a clause of SQL, by line."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [f"{line}: {text[:60]}" for line, text in texts(tree) if CLAUSE.search(text)]


@pytest.mark.parametrize("file", CORE + EDGE, ids=lambda file: str(file.relative_to(ROOT)))
def test_sql_is_written_in_its_packages_alone(file: Path) -> None:
    """`ingest/sql/` has every query and statement; others put conditions and names into them."""
    if not module_of(file).startswith("ingest.sql") and module_of(file) not in NO_QUERIES:
        assert queries(file) == []


def test_no_file_is_let_off_that_has_no_such_words() -> None:
    assert [name for name in NO_QUERIES if not queries(FILES[name])] == []


def test_a_query_is_seen(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        'def f(name):\n    """SELECT nothing."""\n'
        '    where = "batch > 3 AND kind = 1"\n'
        '    return f"SELECT * FROM {name} WHERE {where}" + f" GROUP BY {name}"\n'
    )
    assert queries(wrong) == ["4: SELECT * FROM {} WHERE {}", "4:  GROUP BY {}"]


CHANGES = re.compile(r"(?i)\s*(MERGE|INSERT|UPDATE|DELETE|ALTER|DROP TABLE|OPTIMIZE|VACUUM)\b")


def _begins(text: ast.expr) -> str:
    """What an SQL text that stands in code begins with."""
    while isinstance(text, ast.JoinedStr | ast.BinOp):
        text = text.values[0] if isinstance(text, ast.JoinedStr) else text.left
    return str(text.value) if isinstance(text, ast.Constant) else ""


def _statements() -> set[str]:
    """The functions of `ingest/sql/` that give a statement which changes a table."""
    found = set()
    for file in (file for file in CORE if module_of(file).startswith("ingest.sql")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                given = [r.value for r in ast.walk(node) if isinstance(r, ast.Return) and r.value]
                if any(CHANGES.match(_begins(value)) for value in given):
                    found.add(node.name)
    return found


STATEMENTS = _statements()


def _called(node: ast.expr) -> str:
    """The name of what is called, without that of its module."""
    function = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(function).rpartition(".")[2]


@pytest.mark.parametrize("file", EDGE, ids=lambda file: str(file.relative_to(ROOT)))
def test_tables_are_changed_by_who_holds_the_lease(file: Path) -> None:
    """`Warehouse.execute` looks whether it still does; the log of leases has its own way."""
    asked = []
    for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef):
            nodes = list(ast.walk(function))
            given = {
                ast.unparse(target): node.value
                for node in nodes
                if isinstance(node, ast.Assign)
                for target in node.targets
            }
            asked += [
                given.get(ast.unparse(node.args[0]), node.args[0])
                for node in nodes
                if isinstance(node, ast.Call) and node.args
                if isinstance(node.func, ast.Attribute) and node.func.attr == "sql"
            ]
    wrong = [q for q in asked if CHANGES.match(_begins(q)) or _called(q) in STATEMENTS]
    assert list(map(ast.unparse, wrong)) == []


def test_statements_that_change_tables_are_known() -> None:
    assert {"upsert", "from_silver", "set_properties", "vacuum", "take"} <= STATEMENTS


COLLECTS = {"collect", "toArrow", "toPandas", "toLocalIterator"}
ROWS = re.compile(r"^(found_)?rows(_of)?$|^records$")


def collecting(node: ast.AST, names: tuple[str, ...] = ()) -> set[str]:
    """The functions of a file that bring rows of a DataFrame to the driver, by their full names."""
    found: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            function = child.func
            if isinstance(function, ast.Attribute) and function.attr in COLLECTS:
                found.add(".".join(names))
            if isinstance(function, ast.Name) and ROWS.match(function.id):
                found.add(".".join(names))
        inner = (child.name,) if isinstance(child, ast.FunctionDef | ast.ClassDef) else ()
        found |= collecting(child, (*names, *inner))
    return found


def test_what_comes_to_the_driver_is_listed_with_its_bound() -> None:
    """`pipelines/README.md` names each place that collects; `platform.rows` is how they do."""
    listed = (ROOT / "pipelines/README.md").read_text()
    files = [file for file in EDGE if module_of(file) != "pipelines.platform.rows"]
    # Records of files, and of messages that are inspected, are no DataFrame.
    found = {
        f"{module_of(file).removeprefix('pipelines.')}.{name}"
        for file in files
        for name in collecting(ast.parse(file.read_text(encoding="utf-8")))
    } - {
        "bronze.files._first_or_last",
        "bronze.records._rows",
        "cli.inspect._messages",
        "documentation.formats._demo",
        "scaffold.sample._messages",
    }
    assert {name for name in found if f"`{name}`" not in listed} == set()
    assert len(found) > 40


def test_what_lies_beside_the_checkpoints_is_listed() -> None:
    """`pipelines/README.md` says of each note what it is, and what becomes of it if lost."""
    listed = (ROOT / "pipelines/README.md").read_text()
    texts = [file.read_text(encoding="utf-8") for file in EDGE]
    found = {name for text in texts for name in re.findall(r'"(\w+\.json)"', text)}
    assert {name for name in found if f"/{name}`" not in listed} == set()
    assert len(found) > 8


@pytest.mark.parametrize("file", [*CORE, *EDGE], ids=lambda file: str(file.relative_to(ROOT)))
def test_pages_that_a_module_names_are_there(file: Path) -> None:
    named = re.findall(r"\b(?:docs|tests|ingest|pipelines)/[\w./-]+\.md\b", file.read_text())
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_twelve_files_show_how_the_product_works() -> None:
    """They are there, with what is named of them, and no more than somebody reads in a day."""
    page = (ROOT / "ingest/README.md").read_text()
    listed = re.findall(r"^\d+\. `([^`]+)`: ([^\n]+)$", page, re.M)
    files = {path: (ROOT / path).read_text() for path, _ in listed}
    assert len(files) == 12
    assert sum(text.count("\n") for text in files.values()) < 3_300
    for path, about in listed:
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", about):
            assert re.search(rf"(def|class) {name}\b", files[path]), (path, name)


def test_the_maps_have_every_package() -> None:
    """Of `ingest/` also the files beside the packages, and those beside the packages of `sql/`."""
    core = (ROOT / "ingest/README.md").read_text()
    edge = (ROOT / "pipelines/README.md").read_text()
    beside = [*(ROOT / "ingest").glob("*.py"), *(ROOT / "ingest/sql").glob("*.py")]
    lacking = {file.name for file in beside if file.name not in core} - {"__init__.py"}
    lacking |= {f.name for f in _folders("pipelines") if f"`{f.name}/`" not in edge}
    # Of the families of formats the map says that they are packages.
    families = set(_folders("ingest/formats"))
    for folder in set(_folders("ingest")) - families:
        path = folder.relative_to(ROOT / "ingest").as_posix()
        lacking |= {path} if f"`{path}/`" not in core else set()
    assert lacking == set()


def _folders(below: str) -> list[Path]:
    """The packages within a folder of the repository."""
    return [file.parent for file in (ROOT / below).rglob("*/__init__.py")]


@pytest.mark.parametrize("file", CORE, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_is_remembered_has_a_bound(file: Path) -> None:
    """`ingest.memo.Memo` and `lru_cache` say it where they are made; nobody keeps one by hand."""
    text = file.read_text(encoding="utf-8")
    assert re.findall(r"@(?:functools\.)?(?:cache|lru_cache)\n|lru_cache\(None", text) == []
    by_hand = re.findall(r"if len\(([\w.]+)\) >= \w+:\n +\1\.clear\(\)", text)
    # A set, whose members are known once the rows that they are of are made.
    assert by_hand == (["self._schemas"] if module_of(file) == "ingest.decode.source" else [])


@pytest.mark.parametrize("file", CORE + EDGE, ids=lambda file: str(file.relative_to(ROOT)))
def test_parts_of_a_position_have_names(file: Path) -> None:
    """`ingest.position` says what stands where in `pos`, and nobody else counts."""
    if module_of(file) != "ingest.position":
        bare = re.findall(r"slice\([\w.]*pos, -?\d+, -?\d+\)", file.read_text(encoding="utf-8"))
        assert bare == []


def lines_of(node: ast.FunctionDef) -> int:
    """How many lines a function has, its signature and docstring counted."""
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_names_are_compared_without_case_in_one_way() -> None:
    """As Spark does, to which `Straße` and `strasse` are two columns."""
    files = [file for file in CORE + EDGE if "casefold" in file.read_text("utf-8")]
    assert files == []


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
