"""Builds a release and shows that it is whole: `python .ci/release.py FOLDER`.

1. The wheel and the sdist, by the project's own build backend.
2. What they say of themselves and what they hold: everything that is needed, no tests, no secrets.
3. `sbom.cdx.json`, a bill of materials (CycloneDX 1.6): each dependency, extras included, with its
   version, hashes and licence as the locks and its own metadata have them, and each jar with its.
4. The wheel in an empty environment, with the versions of the lock, plays the demo.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
NAME = "delta-cdc-ingest"
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
NEEDED = (
    *("ingest/__init__.py", "ingest/py.typed", "pipelines/py.typed", "pipelines/cli/app.py"),
    *("pipelines/platform/delta.jars", "pipelines/platform/kafka.jars"),
    *("pipelines/platform/log4j2.properties", "pipelines/reporting/report.html.j2"),
    "pipelines/web/style.css",
)
OF_WHEEL, OF_SDIST = ("ingest", "pipelines"), ("ingest", "pipelines", "conf", "docs", ".ci")
TOP = {"LICENSE", "Makefile", "PKG-INFO", "README.md", "databricks.yml", "pyproject.toml"}
TOP |= {".gitignore"}
SECRET = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bghp_\w{36}\b|\bdapi[0-9a-f]{32}\b"
)
JAR_LICENCES = {
    "com.fasterxml.jackson.datatype": "Apache-2.0",
    "io.delta": "Apache-2.0",
    "io.unitycatalog": "Apache-2.0",
    "javax.annotation": "CDDL + GPLv2 with classpath exception",
    "org.apache.commons": "Apache-2.0",
    "org.apache.kafka": "Apache-2.0",
    "org.apache.spark": "Apache-2.0",
}
"""Of the jars by their group, as their projects say it: not every jar holds its licence."""
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_JAR = re.compile(r"^([^:#\s]+):([^:\s]+):([^:\s]+) ([0-9a-f]{64})", re.MULTILINE)


class Broken(Exception):
    """What is not as a release has to be."""


def canonical(name: str) -> str:
    """A project's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def check_contents(held: Mapping[str, bytes], folders: Iterable[str], top: Iterable[str]) -> None:
    """Raise Broken where files (path -> content) are not those of a release."""
    missing = [name for name in NEEDED if name not in held]
    if missing:
        raise Broken(f"expected {', '.join(missing)} in it, got none")
    folders, top = tuple(folders), set(top)
    strange = [name for name in held if name.partition("/")[0] not in folders and name not in top]
    strange += [name for name in held if re.search(r"\.(pyc|env|pem|key|p12|jks)$", name)]
    if strange:
        raise Broken(f"expected files of {', '.join(folders)} alone, got {', '.join(strange[:5])}")
    secret = [name for name, content in held.items() if SECRET.search(content)]
    if secret:
        raise Broken(f"expected no secret, got what looks like one in {', '.join(secret)}")


def check_metadata(text: str, version: str, changelog: str) -> None:
    """Raise Broken where the metadata of a wheel or a sdist lacks something."""
    said = dict(re.findall(r"^([\w-]+): (.+)$", text.partition("\n\n")[0], re.MULTILINE))
    expected = {
        "Name": NAME,
        "Version": version,
        "License-Expression": "Apache-2.0",
        "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
    }
    wrong = [f"{key}: {said.get(key)}" for key, value in expected.items() if said.get(key) != value]
    if wrong:
        raise Broken(f"expected {expected}, got {', '.join(wrong)}")
    if VERSION.fullmatch(version) is None:
        raise Broken(f"expected a semantic version like 1.2.3, got {version}")
    if f"\n## {version}" not in changelog:
        raise Broken(f"expected a section `## {version}` in docs/changelog.md, got none")


def closure(extras: Iterable[str]) -> dict[str, Distribution]:
    """All distributions that the product with these extras is installed with, by name."""
    found: dict[str, Distribution] = {}
    waiting = [(NAME, frozenset(extras))]
    seen = set(waiting)
    while waiting:
        name, wanted = waiting.pop()
        try:
            found[name] = dist = distribution(name)
        except PackageNotFoundError:
            continue
        for text in dist.requires or ():
            needed = Requirement(text)
            marks = [{"extra": extra} for extra in wanted or {""}]
            if needed.marker is None or any(map(needed.marker.evaluate, marks)):
                one = (canonical(needed.name), frozenset(needed.extras))
                if one not in seen:
                    seen.add(one)
                    waiting.append(one)
    del found[NAME]
    return dict(sorted(found.items()))


def licence(dist: Distribution) -> str:
    """What a distribution says of its licence; raises Broken where it says nothing."""
    said = dist.metadata
    expression, line = (
        " ".join(said.get_all(key) or ()) for key in ("License-Expression", "License")
    )
    classified = [c for c in said.get_all("Classifier") or () if c.startswith("License :: ")]
    named = ", ".join(c.split(" :: ")[-1] for c in classified)
    found = expression or line.strip().partition("\n")[0] or named
    if found in ("", "UNKNOWN"):
        raise Broken(f"expected {said['Name']} to name its licence, got none")
    return found


def locked() -> dict[str, dict[str, str]]:
    """Of each project of the lock the lines that pin it, by version: one for each Python."""
    text = (ROOT / ".ci/requirements.lock").read_text(encoding="utf-8")
    starts = list(_LOCKED.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    found: dict[str, dict[str, str]] = {}
    for start, end in zip(starts, ends, strict=True):
        found.setdefault(canonical(start[1]), {})[start[2]] = text[start.start() : end]
    return found


def bill(version: str, parts: Mapping[str, Distribution]) -> dict[str, Any]:
    """The bill of materials, CycloneDX 1.6."""
    pinned = locked()
    components: list[dict[str, Any]] = []
    for name, dist in parts.items():
        if dist.version not in pinned.get(name, {}):
            raise Broken(f"expected {name} {dist.version} in the lock; run make lock")
        hashes = [
            {"alg": "SHA-256", "content": each}
            for each in _HASH.findall(pinned[name][dist.version])
        ]
        purl = f"pkg:pypi/{name}@{dist.version}"
        about = {"name": name, "version": dist.version, "hashes": hashes}
        licences = [{"license": {"name": licence(dist)}}]
        components.append(
            {"type": "library", "bom-ref": purl, **about, "licenses": licences, "purl": purl}
        )
    jars = {
        found
        for lock in ("delta.jars", "kafka.jars")
        for found in _JAR.findall((ROOT / "pipelines/platform" / lock).read_text(encoding="utf-8"))
    }
    for group, name, number, digest in sorted(jars):
        purl = f"pkg:maven/{group}/{name}@{number}"
        if group not in JAR_LICENCES:
            raise Broken(f"expected JAR_LICENCES to name that of {group}, which {name} is of")
        about = {"group": group, "name": name, "version": number, "purl": purl}
        hashes = [{"alg": "SHA-256", "content": digest}]
        licences = [{"license": {"name": JAR_LICENCES[group]}}]
        components.append(
            {"type": "library", "bom-ref": purl, **about, "licenses": licences, "hashes": hashes}
        )
    own = {"type": "application", "bom-ref": NAME, "name": NAME, "version": version}
    own["licenses"] = [{"license": {"id": "Apache-2.0"}}]  # type: ignore[assignment]
    refs = [component["bom-ref"] for component in components]
    return {
        **{"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1},
        "metadata": {"component": own},
        "components": components,
        "dependencies": [{"ref": NAME, "dependsOn": refs}],
    }


def play(wheel: Path, parts: Iterable[str]) -> None:
    """Install the wheel where nothing else is, and play the demo with it."""
    pinned = locked()
    with tempfile.TemporaryDirectory() as scratch:
        home, bin_ = Path(scratch), Path(scratch, "env", "bin")
        venv.create(home / "env", with_pip=True)
        needed = home / "needed.lock"
        needed.write_text(
            "".join(text for name in parts for text in pinned[name].values()), encoding="utf-8"
        )
        install = [bin_ / "python", "-m", "pip", "install", "--quiet"]
        exact = [*install, "--require-hashes", "--no-build-isolation", "-r"]
        _run([*install, "--require-hashes", "-r", ROOT / ".ci/build.lock"], home)
        _run([*exact, needed], home)
        _run([*install, "--no-deps", wheel], home)
        _run([bin_ / "python", "-m", "pip", "check"], home)
        shutil.copytree(ROOT / "conf", home / "conf")
        _run([bin_ / "ingest", "--version"], home)
        _run([bin_ / "python", "conf/demo/play.py"], home)


def _run(words: list[Any], folder: Path) -> None:
    environ = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(list(map(str, words)), cwd=folder, env=environ, check=False)
    if done.returncode:
        raise Broken(f"expected `{' '.join(map(str, words[:4]))} …` to end with 0")


def main(folder: Path) -> None:
    """All four steps."""
    shutil.rmtree(folder, ignore_errors=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version, changelog = project["version"], (ROOT / "docs/changelog.md").read_text("utf-8")
    _run([sys.executable, "-m", "hatchling", "build", "--directory", folder.absolute()], ROOT)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    about = next(name.partition("/")[0] for name in held if name.endswith(".dist-info/METADATA"))
    check_contents(held, (*OF_WHEEL, about), ())
    check_metadata(held[f"{about}/METADATA"].decode(), version, changelog)
    with tarfile.open(sdist) as tar:
        files = {
            file.name.partition("/")[2]: tar.extractfile(file) for file in tar if file.isfile()
        }
        held = {name: opened.read() for name, opened in files.items() if opened is not None}
    check_contents(held, OF_SDIST, TOP)
    check_metadata(held["PKG-INFO"].decode(), version, changelog)
    parts = closure(project["optional-dependencies"])
    (folder / "sbom.cdx.json").write_text(
        json.dumps(bill(version, parts), indent=1) + "\n", "utf-8"
    )
    play(wheel.absolute(), parts)
    print(f"{folder}: {wheel.name}, {sdist.name}, sbom.cdx.json")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except Broken as broken:
        raise SystemExit(f"not a release: {broken}") from None
