"""The Databricks bundle: accepted by the CLI's schema, by the typed models and by our own rules.

`mistakes` names every objection of the three judges; the mutations show that each judge objects
to what it should, so that their silence about the bundle says something.
"""

import copy
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.volumes import Volume
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("INGEST_SHARED", ROOT.parent / "shared"))
SCHEMA = SHARED / "databricks" / "bundle_schema.json"
MODELS: dict[str, Any] = {"jobs": Job, "schemas": Schema, "volumes": Volume}
TARGETS = ["dev", "prod"]
SECTIONS = set("artifacts bundle experimental include resources sync targets variables".split())
STAGES = ["bronze", "silver", "gold"]
TASKS = {
    "ingest_continuous": ["run"],
    "ingest_maintain": ["maintain"],
    "ingest_checks": ["status"],
    "ingest_ops": ["ops"],
}
"""Those of the jobs that do not run the stages one by one."""
VERBS = {
    "run": ["run", "--continuous"],
    "status": ["status", "--check"],
    "ops": ["line", "{{job.parameters.arguments}}"],
}
"""The words of a task, where they are not its name alone."""
REFERENCE = re.compile(r"\$\{([\w.-]+)\}")

Tree = dict[str, Any]


# --- the bundle as the Databricks CLI sees it ------------------------------------------------


def merge(base: Any, over: Any) -> Any:
    """Mappings are merged, sequences appended, anything else replaced: the CLI's rule."""
    if isinstance(base, dict) and isinstance(over, dict):
        merged = dict(base)
        for key, value in over.items():
            merged[key] = merge(base[key], value) if key in base else value
        return merged
    if isinstance(base, list) and isinstance(over, list):
        return base + over
    return over


@cache
def parsed_bundle() -> str:
    """databricks.yml with its includes, as JSON, so that no test sees another's mutation."""
    yaml = YAML(typ="safe")
    bundle = yaml.load(ROOT / "databricks.yml")
    for pattern in bundle["include"]:
        paths = sorted(ROOT.glob(pattern))
        assert paths, f"nothing matches the include {pattern}"
        for path in paths:
            bundle = merge(bundle, yaml.load(path))
    return json.dumps(bundle)


def load_bundle() -> Tree:
    bundle: Tree = json.loads(parsed_bundle())
    return bundle


def resolve(value: Any, variables: Tree) -> Any:
    """Put the variables' values in place of `${var.NAME}`; other references stay."""
    if isinstance(value, dict):
        return {key: resolve(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, variables) for item in value]
    if not isinstance(value, str):
        return value
    whole = re.fullmatch(r"\$\{var\.(\w+)\}", value)
    if whole:
        return resolve(variables[whole[1]], variables)
    return re.sub(
        r"\$\{var\.(\w+)\}", lambda name: str(resolve(variables[name[1]], variables)), value
    )


def resolve_target(bundle: Tree, target: str) -> Tree:
    """The bundle with the overrides and variables of one target, as it is deployed."""
    bundle = copy.deepcopy(bundle)
    overrides = bundle["targets"][target]
    given = {"catalog": "shop", "service_principal": "00000000-0000-4000-8000-000000000000"}
    variables = {name: item.get("default") for name, item in bundle["variables"].items()}
    variables |= overrides.get("variables", {}) | given
    for key in ("resources", "run_as", "workspace"):
        if key in overrides:
            bundle[key] = merge(bundle.get(key, {}), overrides[key])
    resolved: Tree = resolve(bundle, variables)
    return resolved


# --- the three judges ----------------------------------------------------------------------


@cache
def schema_validator() -> Draft202012Validator | None:
    """The judge of the whole file; it stands outside the repository, for its licence."""
    if not SCHEMA.exists():
        return None
    text = SCHEMA.read_text(encoding="utf-8")
    # Go's classes of letters and numbers, which Python's expressions do not have.
    text = text.replace(r"[\\p{L}\\p{N}]", r"[^\\W_]").replace(r"\\p{L}", r"[^\\W\\d_]")
    assert r"\\p{" not in text
    return Draft202012Validator(json.loads(text))


def schema_mistakes(bundle: Tree) -> Iterator[str]:
    validator = schema_validator()
    if validator is not None:
        for error in validator.iter_errors(bundle):
            yield f"schema: {error.json_path}: {error.message[:200]}"


def model_mistakes(bundle: Tree) -> Iterator[str]:
    for kind, resources in bundle["resources"].items():
        for name, resource in resources.items():
            try:
                MODELS[kind].from_dict(resource)
            except (KeyError, TypeError, ValueError) as error:
                yield f"model: {kind}.{name}: {error}"


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


def reference_mistakes(bundle: Tree) -> Iterator[str]:
    found = {name for text in strings(bundle) for name in REFERENCE.findall(text)}
    used = {name.split(".")[1] for name in found if name.startswith("var.")}
    declared = set(bundle["variables"])
    yield from (f"rule: undeclared variable {name}" for name in sorted(used - declared))
    yield from (f"rule: unused variable {name}" for name in sorted(declared - used))
    for target, overrides in bundle["targets"].items():
        for name in sorted(set(overrides.get("variables", {})) - declared):
            yield f"rule: {target} sets undeclared variable {name}"
    for name in sorted(found):
        kind, *path = name.split(".")
        if kind == "resources" and path[1] not in bundle["resources"].get(path[0], {}):
            yield f"rule: unknown resource {name}"


def job_mistakes(name: str, job: Tree, project: Tree) -> Iterator[str]:
    if job.get("max_concurrent_runs") != 1:
        yield f"rule: {name} may run beside itself"
    endless = "continuous" in job
    if (job.get("queue") == {"enabled": True}) == endless:
        yield f"rule: {name} expected a queue, unless it goes on for ever"
    if job.get("permissions") != "${var.permissions}":
        yield f"rule: {name} has other permissions than the variable's"
    tasks = job["tasks"]
    if endless and ("schedule" in job or "timeout_seconds" in job or len(tasks) > 1):
        yield f"rule: {name} goes on for ever: one task, no schedule, no end"
    expected = TASKS.get(name, STAGES)
    if [task["task_key"] for task in tasks] != expected:
        yield f"rule: {name} expected the tasks {expected}"
    environments = {item["environment_key"] for item in job.get("environments", [])}
    clusters = {item["job_cluster_key"] for item in job.get("job_clusters", [])}
    before: list[Tree] = []
    for task in tasks:
        where = f"{name}.{task['task_key']}"
        if task.get("depends_on", []) != before:
            yield f"rule: {where} expected to depend on {before}"
        before = [{"task_key": task["task_key"]}]
        wheel = task["python_wheel_task"]
        if wheel["package_name"] != project["name"]:
            yield f"rule: {where} package {wheel['package_name']} is not {project['name']}"
        if wheel["entry_point"] not in project["scripts"]:
            yield f"rule: {where} entry point {wheel['entry_point']} is not a console script"
        # The platform refuses both a schedule's retries and dependences where a job is continuous.
        if endless and {"max_retries", "depends_on"} & set(task):
            yield f"rule: {where} is tried again by its job alone"
        verb = VERBS.get(task["task_key"], [task["task_key"]])
        if wheel["parameters"][2:] != verb:
            yield f"rule: {where} runs the verb {wheel['parameters'][2:]}"
        if {task.get("environment_key")} - {None} - environments:
            yield f"rule: {where} unknown environment"
        if {task.get("job_cluster_key")} - {None} - clusters:
            yield f"rule: {where} unknown cluster"
        if ("environment_key" in task) == ("job_cluster_key" in task):
            yield f"rule: {where} expected one kind of compute"


def rule_mistakes(bundle: Tree) -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # The schema lets any key stand at the top.
    for key in sorted(set(bundle) - SECTIONS):
        yield f"rule: unknown section {key}"
    yield from reference_mistakes(bundle)
    for name, job in bundle["resources"]["jobs"].items():
        yield from job_mistakes(name, job, project)
    if list(bundle["targets"]) != TARGETS:
        yield f"rule: expected the targets {TARGETS}"


def mistakes(bundle: Tree) -> list[str]:
    return [*schema_mistakes(bundle), *model_mistakes(bundle), *rule_mistakes(bundle)]


# --- the bundle is right -----------------------------------------------------------------


@pytest.mark.skipif(not SCHEMA.exists(), reason=f"no bundle schema at {SCHEMA}")
@pytest.mark.parametrize("target", [None, *TARGETS])
def test_schema_accepts_the_bundle(target: str | None) -> None:
    bundle = load_bundle()
    assert list(schema_mistakes(resolve_target(bundle, target) if target else bundle)) == []


@pytest.mark.parametrize("target", [None, *TARGETS])
def test_typed_models_accept_every_resource(target: str | None) -> None:
    bundle = load_bundle()
    resolved = resolve_target(bundle, target) if target else bundle
    assert {kind: sorted(items) for kind, items in resolved["resources"].items()} == {
        "jobs": [
            *("ingest_checks", "ingest_cluster", "ingest_continuous", "ingest_maintain"),
            *("ingest_ops", "ingest_serverless"),
        ],
        "schemas": ["bronze", "gold", "history", "silver"],
        "volumes": ["checkpoints"],
    }
    assert list(model_mistakes(resolved)) == []


def test_rules_hold() -> None:
    assert list(rule_mistakes(load_bundle())) == []


def test_targets() -> None:
    targets = load_bundle()["targets"]
    assert {name: (item.get("default"), item["mode"]) for name, item in targets.items()} == {
        "dev": (True, "development"),
        "prod": (None, "production"),
    }
    assert targets["prod"]["run_as"] == {"service_principal_name": "${var.service_principal}"}


@pytest.mark.parametrize(("target", "started"), [("dev", []), ("prod", ["ingest_serverless"])])
def test_the_schedule_starts_at_most_one_of_the_jobs(target: str, started: list[str]) -> None:
    jobs = resolve_target(load_bundle(), target)["resources"]["jobs"]
    started_by = {name: job.get("schedule") or job.get("continuous") for name, job in jobs.items()}
    unpaused = [
        name for name, plan in started_by.items() if plan and plan["pause_status"] == "UNPAUSED"
    ]
    assert sorted(name for name, plan in started_by.items() if plan is None) == ["ingest_ops"]
    assert [name for name in unpaused if name != "ingest_maintain"] == started
    assert ("ingest_maintain" in unpaused) == bool(started)


def test_a_deployment_says_who_may_do_what_with_its_jobs() -> None:
    bundle = load_bundle()
    readers = [{"level": "CAN_VIEW", "group_name": "data-readers"}]
    bundle["variables"]["permissions"]["default"] = readers
    resolved = resolve_target(bundle, "prod")
    assert [job["permissions"] for job in resolved["resources"]["jobs"].values()] == [readers] * 6
    assert [*schema_mistakes(resolved), *model_mistakes(resolved)] == []


def test_destroying_prod_keeps_the_data() -> None:
    resources = resolve_target(load_bundle(), "prod")["resources"]
    kept = resources["schemas"] | resources["volumes"]
    assert {name: item["lifecycle"]["prevent_destroy"] for name, item in kept.items()} == {
        name: True for name in ("bronze", "silver", "gold", "history", "checkpoints")
    }


def test_merge_keys_name_an_anchor() -> None:
    """YAML also allows a mapping on the spot; the loader of the Databricks CLI refuses it."""
    for path in [ROOT / "databricks.yml", *(ROOT / "conf" / "bundle").glob("*.yml")]:
        assert re.findall(r"<<:(?! \*)", path.read_text(encoding="utf-8")) == []


def test_no_host_person_or_secret_is_named() -> None:
    for path in [ROOT / "databricks.yml", *(ROOT / "conf" / "bundle").iterdir()]:
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert re.findall(r"https?://|\w@\w|user_name|\bdapi\w|\bprofile:|\bhost:", text) == []


# --- and would be refused if it were wrong -------------------------------------------------


def job_of(bundle: Tree) -> Tree:
    job: Tree = bundle["resources"]["jobs"]["ingest_serverless"]
    return job


def endless_of(bundle: Tree) -> Tree:
    job: Tree = bundle["resources"]["jobs"]["ingest_continuous"]
    return job


def task_of(bundle: Tree) -> Tree:
    task: Tree = job_of(bundle)["tasks"][1]
    return task


def wheel_of(bundle: Tree) -> Tree:
    wheel: Tree = task_of(bundle)["python_wheel_task"]
    return wheel


def volume_of(bundle: Tree) -> Tree:
    volume: Tree = bundle["resources"]["volumes"]["checkpoints"]
    return volume


MUTATIONS: dict[str, tuple[set[str], Callable[[Tree], Any]]] = {
    "unknown key at the top": ({"rule"}, lambda b: b.update(resource={})),
    "unknown key in a target": ({"schema"}, lambda b: b["targets"]["dev"].update(hosts="x")),
    "bundle without name": ({"schema"}, lambda b: b["bundle"].pop("name")),
    "unknown key in a job": ({"schema", "model"}, lambda b: job_of(b).update(max_runs=1)),
    "unknown key in a schema": (
        {"schema", "model"},
        lambda b: b["resources"]["schemas"]["gold"].update(catalogue_name="x"),
    ),
    "a sequence for a mapping": ({"schema", "model"}, lambda b: job_of(b).update(tags=["x"])),
    "a text for a number": (
        {"schema", "model", "rule"},
        lambda b: job_of(b).update(max_concurrent_runs="one"),
    ),
    "unknown run_if": ({"schema", "model"}, lambda b: task_of(b).update(run_if="ALWAYS")),
    "volume without schema": ({"schema", "model"}, lambda b: volume_of(b).pop("schema_name")),
    "volume of no type": (
        {"schema", "model"},
        lambda b: volume_of(b).update(volume_type="LOCAL"),
    ),
    "dependence on an unknown task": (
        {"rule"},
        lambda b: task_of(b).update(depends_on=[{"task_key": "platinum"}]),
    ),
    "tasks out of order": ({"rule"}, lambda b: job_of(b)["tasks"].reverse()),
    "a task short": ({"rule"}, lambda b: job_of(b)["tasks"].pop()),
    "unknown entry point": ({"rule"}, lambda b: wheel_of(b).update(entry_point="ingestion")),
    "another package": ({"rule"}, lambda b: wheel_of(b).update(package_name="delta-ingest")),
    "another verb": ({"rule"}, lambda b: wheel_of(b)["parameters"].__setitem__(-1, "bronze")),
    "unknown environment": ({"rule"}, lambda b: task_of(b).update(environment_key="default")),
    "runs beside itself": ({"rule"}, lambda b: job_of(b).update(max_concurrent_runs=2)),
    "no queue": ({"rule"}, lambda b: job_of(b).update(queue={"enabled": False})),
    "other permissions": ({"rule"}, lambda b: job_of(b).update(permissions=[])),
    "a queue for ever": ({"rule"}, lambda b: endless_of(b).update(queue={"enabled": True})),
    "an end of what is for ever": ({"rule"}, lambda b: endless_of(b).update(timeout_seconds=60)),
    "retries beside those for ever": (
        {"rule"},
        lambda b: endless_of(b)["tasks"][0].update(max_retries=2),
    ),
    "undeclared variable": ({"rule"}, lambda b: b["variables"].pop("schedule")),
    "unused variable": ({"rule"}, lambda b: b["variables"].update(region={"default": "x"})),
    "unknown resource": (
        {"rule"},
        lambda b: volume_of(b).update(schema_name="${resources.schemas.brass.name}"),
    ),
    "no prod": ({"rule"}, lambda b: b["targets"].pop("prod")),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_refused(name: str) -> None:
    judges, mutate = MUTATIONS[name]
    bundle = load_bundle()
    mutate(bundle)
    expected = judges if SCHEMA.exists() else judges - {"schema"}
    if not expected:
        pytest.skip(f"only the schema can refuse it, and there is none at {SCHEMA}")
    assert {mistake.split(":")[0] for mistake in mistakes(bundle)} == expected
