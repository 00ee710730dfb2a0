"""Aliyun DTS, in Avro."""
