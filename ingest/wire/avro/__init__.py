"""Avro datums read exactly: schemas, registries and readers of both kinds."""
