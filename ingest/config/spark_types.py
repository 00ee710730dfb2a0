"""The Spark types that `columns:` of a tables file may give, checked without Spark."""

from __future__ import annotations

import difflib
import re

SCALARS = tuple(
    """
    boolean tinyint smallint int bigint float double string binary date timestamp timestamp_ntz
    """.split()
)
# Spark's own other spellings (Spark SQL reference, "Data Types", SQL names).
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
# What people write who think in the source's types.
_MEANT = {
    "bool": "boolean",
    "number": "decimal(p,s)",
    "datetime": "timestamp_ntz",
    "int unsigned": "bigint",
    "bigint unsigned": "decimal(20,0)",
    "timestamptz": "timestamp",
    "blob": "binary",
    "bytes": "binary",
    **dict.fromkeys(("varchar", "char", "text", "json", "uuid", "enum", "time"), "string"),
}
_DECIMAL = re.compile(r"(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")


def spark_column_type(text: str) -> str:
    """`text` in Spark's canonical spelling; raises ValueError if it is no scalar Spark type."""
    name = " ".join(text.lower().split())
    name = _ALIASES.get(name, name)
    if name in SCALARS:
        return name
    found = _DECIMAL.fullmatch(name)
    if found is not None and _ALIASES.get(found[1], found[1]) == "decimal":
        if found[2] is None:
            raise ValueError(
                f"expected precision and scale, decimal(p,s), got `{text}` "
                f"(Spark would make it decimal(10,0))"
            )
        precision, scale = int(found[2]), int(found[3] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return f"decimal({precision},{scale})"
        raise ValueError(f"expected decimal(p,s) with s <= p <= 38, got `{text}`")
    bare = re.sub(r"\s*\(.*\)", "", name)
    near = [_MEANT[bare]] if bare in _MEANT else difflib.get_close_matches(bare, SCALARS, n=1)
    raise ValueError(
        f"expected a Spark type ({', '.join(SCALARS)}, decimal(p,s)), got `{text}`"
        + (f"; nearest: {near[0]}" if near else "")
    )
