"""Partitions that are read by offset, as a streaming data source of Spark.

Each run of a stream starts four Python processes that import all of this again: to make the source,
to plan, and to read. So no module here imports the configuration, or anything else that costs as
much as reading a thousand messages.
"""
