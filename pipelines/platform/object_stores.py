"""Object stores in which tables may lie, and what is said about one that does not answer.

On S3 two drivers can each write the same commit of a Delta table, and the second replaces the
first, because Delta Lake's own log store there only knows of one driver. Then the lease on the
tables, which is a row of a Delta table, does not hold either. So whoever has tables on S3 has to
say which log store keeps them.
"""

from __future__ import annotations

import os
import re

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.config.settings import Settings
from ingest.errors import PlatformError
from ingest.sql.tables.definition import describe_schema
from pipelines.platform.failures import cause, gist, mentions

_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
}
_UNKNOWN = ("No FileSystem for scheme", "ClassNotFoundException")
_NO_CREDENTIALS = ("NoAwsCredentials", "NoAuthWithAWS", "Unable to load credentials")
_FORBIDDEN = ("AccessDenied", "Status Code: 403", "InvalidAccessKeyId", "SignatureDoesNotMatch")


def refusal(uri: str, error: Exception) -> str:
    """The sentence on a store that could not be read, and what to do."""
    scheme, _, rest = uri.partition(":")
    bucket = f"{scheme}://{rest.lstrip('/').partition('/')[0]}" if rest[2:3] != "/" else uri
    if any(mentions(error, words) for words in _UNKNOWN):
        package = _PACKAGES.get(scheme.lower())
        if scheme.lower() in ("s3", "s3n"):
            return f"this Spark cannot read {scheme}://; write s3a://, Hadoop's name for it."
        brings = f"the package {package} of its Hadoop's version" if package else "what brings it"
        return f"this Spark cannot read {scheme}://; start it with {brings}."
    if mentions(error, "UnknownStoreException") or mentions(error, "NoSuchBucket"):
        return f"there is no bucket {bucket}, or not at this endpoint; correct it."
    if any(mentions(error, words) for words in _NO_CREDENTIALS):
        return (
            f"no credentials for {bucket} were found; give AWS_ACCESS_KEY_ID and"
            " AWS_SECRET_ACCESS_KEY in the environment, or the settings"
            " spark.hadoop.fs.s3a.…, see docs/object-stores.md."
        )
    if any(mentions(error, words) for words in _FORBIDDEN):
        return f"{bucket} refuses the credentials that it was given; check key and permissions."
    said = re.sub(r"\s+", " ", cause(error) or gist(error))
    return f"{bucket} cannot be read: {said[:300]}"


_S3 = re.compile(r"(s3[an]?)://", re.IGNORECASE)
_LAYERS = ("bronze", "silver", "gold")
_STORE = "io.delta.storage"


def check_log_store(session: SparkSession, settings: Settings) -> None:
    """Raise PlatformError if tables lie on S3 and no log store is named; Databricks has one of its
    own."""
    if settings.catalog is None or "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return
    for layer in _LAYERS:
        bucket = _location(session, settings.catalog, getattr(settings.schemas, layer))
        found = _S3.match(bucket)
        if found is None:
            continue
        setting = f"spark.delta.logStore.{found[1].lower()}.impl"
        if not any(session.conf.get(name, "") for name in (setting, "spark.delta.logStore.class")):
            raise PlatformError(
                f"tables of {layer} lie in {bucket}, where Delta Lake by itself lets two drivers"
                f" overwrite each other's commits: start Spark with --conf {setting}="
                f"{_STORE}.S3DynamoDBLogStore and the package io.delta:delta-storage-s3-dynamodb,"
                f" or, where no two drivers ever write at once, with {setting}="
                f"{_STORE}.S3SingleDriverLogStore."
            )


def _location(session: SparkSession, catalog: str, schema: str) -> str:
    """Where the tables of a schema lie; for a schema that is not made yet, where they would lie."""
    default = session.conf.get("spark.sql.warehouse.dir", "") or ""
    try:
        described = session.sql(describe_schema(f"`{catalog}`.`{schema}`")).collect()
    except PySparkException:
        return default
    return next((row[1] for row in described if row[0] == "Location"), default)
