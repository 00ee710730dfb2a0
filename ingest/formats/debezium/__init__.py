"""Debezium in JSON and Avro: with and without schema, flattened, and all its connectors."""
