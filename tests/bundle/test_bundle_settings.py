"""The build of the bundle writes the configuration that the jobs read (conf/bundle/settings.py)."""

import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from ingest.config.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
BUNDLE = ROOT / "conf" / "bundle"
SCRIPT = BUNDLE / "settings.py"


def parse(text: str) -> Any:
    return YAML(typ="safe").load(io.StringIO(text))


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def deploy(folder: Path, *arguments: str) -> Path:
    done = run(folder / "conf", folder / "dist" / "conf", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder / "dist" / "conf"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


BEFORE = [
    "",
    "merge_threads: 4\n",
    "merge_threads: 4",
    "# settings\n---\ncatalog: null\nmerge_threads: 4\nwarehouse: warehouse\n",
    "schemas: {bronze: b, silver: s,\n  gold: g}\nmerge_threads: 4\n",
    "schemas: {\n  bronze: b,\n}\nmerge_threads: 4\n",
    "schemas:\n  bronze: b\n# of threads\n  # inner\n  gold: g\n\nmerge_threads: 4\n",
    "'catalog': x\n\"schemas\" : {gold: g}\nmerge_threads: 4\n",
    "warehouse: >-\n  several\n  lines: x\nmerge_threads: 4\nddl: {additive: review}\n",
]


@pytest.mark.parametrize("before", BEFORE)
def test_deployed_settings_replace_those_they_name(tmp_path: Path, before: str) -> None:
    write(tmp_path / "conf" / "ingest.yml", before)
    target = deploy(tmp_path, "--set", "catalog=shop", "--set", "schemas.gold=dev_gold")
    kept = {
        name: value
        for name, value in (parse(before) or {}).items()
        if name in ("merge_threads", "ddl")
    }
    after = parse((target / "ingest.yml").read_text(encoding="utf-8"))
    assert after == kept | {"catalog": "shop", "schemas": {"gold": "dev_gold"}}


def test_deployed_settings_stand_where_there_were_none(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    target = deploy(tmp_path, "--set", "catalog=null")
    assert parse((target / "ingest.yml").read_text(encoding="utf-8")) == {"catalog": "null"}


def test_copy_holds_everything_but_the_bundle_and_nothing_old(tmp_path: Path) -> None:
    write(tmp_path / "conf" / "ingest.yml", "merge_threads: 4\n")
    write(tmp_path / "conf" / "sources" / "shop.yml", "name: shop\n")
    write(tmp_path / "conf" / "sources" / "bundle" / "order.avsc", "{}")
    write(tmp_path / "conf" / "bundle" / "jobs.yml", "resources: {}\n")
    write(tmp_path / "dist" / "conf" / "sources" / "gone.yml", "name: gone\n")
    target = deploy(tmp_path)
    copied = sorted(path.relative_to(target).as_posix() for path in target.rglob("*.*"))
    assert copied == ["ingest.yml", "sources/bundle/order.avsc", "sources/shop.yml"]
    assert (tmp_path / "conf" / "ingest.yml").read_text(encoding="utf-8") == "merge_threads: 4\n"


def test_values_fill_in_the_names_they_give_and_leave_the_others(tmp_path: Path) -> None:
    write(
        tmp_path / "conf" / "sources" / "shop.yml",
        "servers: ${KAFKA:-localhost:9092}\nuser: ${KAFKA_USER}\nzone: '${ZONE}'\nn: ${N:-1}\n",
    )
    target = deploy(tmp_path, "--values", r"KAFKA=one:9092,two:9092 ZONE=Asia/Shanghai")
    assert parse((target / "sources" / "shop.yml").read_text(encoding="utf-8")) == {
        "servers": "one:9092,two:9092",
        "user": "${KAFKA_USER}",
        "zone": "Asia/Shanghai",
        "n": "${N:-1}",
    }


@pytest.mark.parametrize(
    ("settings", "arguments", "text"),
    [
        ("", ["--set", "catalog="], "expected a value for catalog, got none"),
        ("", ["--set", "catalog"], "expected NAME=VALUE"),
        ("", ["--set", "catalog=a b"], "expected NAME=VALUE"),
        ("", ["--values", "KAFKA=a #b"], "expected NAME=VALUE"),
        ("", ["--set", "schemas=x", "--set", "schemas.gold=g"], "got both"),
        ("", ["--set", "schemas.gold=g", "--set", "schemas=x"], "got both"),
        ("{merge_threads: 4}\n", ["--set", "catalog=a"], "got '{merge_threads: 4}"),
    ],
)
def test_mistakes_end_the_build(
    tmp_path: Path, settings: str, arguments: list[str], text: str
) -> None:
    write(tmp_path / "conf" / "ingest.yml", settings)
    done = run(tmp_path / "conf", tmp_path / "dist", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("settings: ")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_missing_folder_ends_the_build(tmp_path: Path) -> None:
    done = run(tmp_path / "conf", tmp_path / "dist")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"settings: expected a configuration folder, found none at {tmp_path / 'conf'}\n"
    )


def test_build_writes_the_names_of_the_resources(tmp_path: Path) -> None:
    """The settings the build gives are the schemas and the volume the bundle makes."""
    variables = {"catalog": "shop", "schema_prefix": "dev_ann_", "values": "KAFKA=one:9092"}

    def resolve(text: str) -> str:
        return re.sub(r"\$\{var\.(\w+)\}", lambda name: variables[name[1]], text)

    artifacts = parse((BUNDLE / "artifacts.yml").read_text(encoding="utf-8"))["artifacts"]
    *_, last = resolve(artifacts["wheel"]["build"]).split("&&")
    program, script, source, target, *given = shlex.split(last)
    assert (program, ROOT / script, source, target) == ("python3", SCRIPT, "conf", "dist/conf")
    write(tmp_path / "conf" / "sources" / "shop.yml", "servers: ${KAFKA}\n")
    conf = deploy(tmp_path, *given)

    resources = parse((BUNDLE / "schemas.yml").read_text(encoding="utf-8"))["resources"]
    schemas = {name: resolve(item["name"]) for name, item in resources["schemas"].items()}
    volume = resources["volumes"]["checkpoints"]
    assert volume["schema_name"] == "${resources.schemas.bronze.name}"
    settings = {
        "catalog": "shop",
        "schemas": schemas,
        "checkpoints": f"/Volumes/shop/{schemas['bronze']}/{volume['name']}",
    }
    assert parse((conf / "ingest.yml").read_text(encoding="utf-8")) == settings
    assert Settings.model_validate(settings).model_dump(include=set(settings)) == settings
    assert (conf / "sources" / "shop.yml").read_text(encoding="utf-8") == "servers: one:9092\n"
