"""Messages exactly as they were received, from files and from Kafka."""
