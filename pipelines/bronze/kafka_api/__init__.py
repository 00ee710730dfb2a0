"""Kafka's protocol, as far as it answers what Spark's source does not: which topics there are, what
they hold, a few messages of them; and it notes how far a consumer group is."""
