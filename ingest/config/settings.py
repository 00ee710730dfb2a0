"""`conf/ingest.yml` and the environment variables that outrank it.

`INGEST_WAREHOUSE`, `INGEST_SCHEMAS__GOLD`: each key of the file in capitals after `INGEST_`, two
underscores for one level down. A variable that is set but empty counts as not set. Variables of
other names are left alone, unless one is so near to a setting that it must be a misspelling.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, assert_never, cast

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from ingest.config.alerts import Checks
from ingest.config.cadence import Duration
from ingest.config.masks import reference
from ingest.config.mistakes import shown
from ingest.config.model import Broken, ConfigModel, PathText, Whole, listed
from ingest.ddl.risks import PolicyRisk
from ingest.errors import Mistake
from ingest.names import LONGEST_TARGET

DdlChoice = Literal["apply", "review", "ignore"]
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""How the name of something begins that is not a path of this machine."""
SchemaName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=LONGEST_TARGET)
]
CatalogName = Annotated[str, StringConstraints(pattern=r"^[^\s./`]+$")]


class Schemas(ConfigModel):
    """The names of the four schemas. Gold and history hold names chosen by the user and share no
    schema with others."""

    bronze: SchemaName = "bronze"
    silver: SchemaName = "silver"
    gold: SchemaName = "gold"
    history: SchemaName = "history"

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        names = {layer: str(given.get(layer, layer)).lower() for layer in cls.model_fields}
        for layer in ("gold", "history"):
            for other in cls.model_fields:
                clash = layer != other and names[layer] == names[other]
                if clash and (layer, other) != ("history", "gold"):
                    blamed = layer if layer in given else other
                    yield (blamed,), f"{layer} needs a schema of its own, got that of {other}"


class DdlPolicy(ConfigModel):
    """What happens to a schema change of each risk class before it touches gold."""

    additive: DdlChoice = "apply"
    widening: DdlChoice = "apply"
    destructive: DdlChoice = "review"
    unparsed: DdlChoice = "review"

    def choice(self, risk: PolicyRisk) -> DdlChoice:
        """What happens to a change of this class."""
        match risk:
            case "additive":
                return self.additive
            case "widening":
                return self.widening
            case "destructive":
                return self.destructive
            case "unparsed":
                return self.unparsed
            case _:
                assert_never(risk)


def _days(value: Any) -> Any:
    """`90 days` as a number of days."""
    found = re.fullmatch(r"([1-9]\d{0,4}) days?", value) if isinstance(value, str) else None
    if found is None and value is not None:
        raise ValueError(f"expected a number of days like `90 days`, got {shown(value)}")
    return int(found[1]) if found is not None else None


Days = Annotated[int | None, BeforeValidator(_days)]
_DELTA_KEEPS = 30 * 86_400


def _deltas(value: int | None) -> int | None:
    if value is not None and value > _DELTA_KEEPS:
        raise ValueError("expected at most `30 days`; Delta Lake itself keeps commits no longer")
    return value


class Retention(ConfigModel):
    """For how many days messages are kept in bronze, superseded changes in silver, and rows in
    `gold._runs` and `gold._progress`; None: for ever. `commits`: for how many seconds each table's
    log has its commits; None: as long as Delta Lake keeps them.

    The age of a message counts from its arrival here. Silver keeps its rows at least as long as
    bronze keeps the messages that they came from.
    """

    bronze: Days = None
    silver: Days = None
    runs: Days = 400
    commits: Annotated[Duration, AfterValidator(_deltas)] = None

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        try:
            bronze, silver = _days(given.get("bronze")), _days(given.get("silver"))
        except ValueError:
            return
        if silver is not None and (bronze is None or bronze > silver):
            yield (
                ("silver",),
                f"silver cannot be trimmed before bronze; give bronze at most {silver} days too",
            )


class Settings(ConfigModel):
    """The settings of an installation. Once loaded, `warehouse` and `checkpoints` are absolute.

    Both are folders that this machine can open, since they also hold files that Spark never sees.
    """

    warehouse: PathText = "warehouse"
    catalog: CatalogName | None = None
    schemas: Schemas = Schemas()
    checkpoints: PathText | None = None
    merge_threads: Annotated[Whole, Field(ge=1)] = 8
    mask_secret: Annotated[str, AfterValidator(reference)] | None = None
    ddl: DdlPolicy = DdlPolicy()
    retention: Retention = Retention()
    checks: Checks = Checks()

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[Broken]:
        for key in ("warehouse", "checkpoints"):
            text = given.get(key)
            if isinstance(text, str) and URI.match(text):
                yield (
                    (key,),
                    f"expected a folder of this machine, got {shown(text)}; {_instead(key, text)}",
                )
        if given.get("catalog") and not given.get("checkpoints"):
            yield (
                ("catalog",),
                "set `checkpoints` too, to a folder that outlives the driver, such as a volume "
                "(/Volumes/…): by default progress would lie on the driver's own disk",
            )


def _instead(key: str, uri: str) -> str:
    """What to set instead of a URI."""
    scheme, _, path = uri.partition(":")
    path = "/" + path.lstrip("/")
    if scheme.lower() == "file":
        return f"write {path}"
    if scheme.lower() == "dbfs" and path.startswith("/Volumes/"):
        return f"write {path}" if key == "checkpoints" else "set `catalog` and `checkpoints`"
    if key == "checkpoints":
        return "give a folder that is mounted, such as a volume (/Volumes/…)"
    return "tables in an object store need a catalog: set `catalog` and `checkpoints`"


_GROUPS: Mapping[str, type[ConfigModel]] = {
    "schemas": Schemas,
    "ddl": DdlPolicy,
    "retention": Retention,
    "checks": Checks,
}
_IN_FILE_ALONE = {"tables"}
VARIABLES: Mapping[str, tuple[str, ...]] = {
    "INGEST_" + "__".join(place).upper(): place
    for name in Settings.model_fields
    for place in (
        [(name, inner) for inner in _GROUPS[name].model_fields if inner not in _IN_FILE_ALONE]
        if name in _GROUPS
        else [(name,)]
    )
}
"""Environment variable -> place of the setting it gives."""


def from_environment(environ: Mapping[str, str]) -> tuple[dict[str, Any], list[Mistake]]:
    """The settings in `environ`, nested like the file; and mistakes for variables that are nearly
    right."""
    given: dict[str, str] = {}
    mistakes = []
    for variable in sorted(environ):
        if not variable.startswith("INGEST_") or not environ[variable]:
            continue
        if variable in VARIABLES:
            given[variable] = environ[variable]
            continue
        near = difflib.get_close_matches(variable, VARIABLES, n=1, cutoff=0.85)
        group = variable.split("__")[0] + "__"
        siblings = [name for name in VARIABLES if name.startswith(group)]
        if near or siblings:
            hint = f"nearest: {near[0]}" if near else f"expected {listed(siblings)}"
            where = f"environment variable {variable}"
            mistakes.append(Mistake(where, None, f"is not a setting; {hint}"))
    return _nested(given) if given else {}, mistakes


def _nested(given: Mapping[str, str]) -> dict[str, Any]:
    # Slow to load, and needed only if the environment sets something.
    from pydantic_settings import BaseSettings, EnvSettingsSource

    # The source asks the class for its fields alone; a BaseSettings would also read os.environ.
    model = cast(type[BaseSettings], Settings)
    source = EnvSettingsSource(model, env_prefix="INGEST_", env_nested_delimiter="__")
    source.env_vars = {variable.lower(): text for variable, text in given.items()}
    return source()
