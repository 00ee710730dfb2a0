"""Messages exactly as they were received, from files, Kafka, RabbitMQ and RocketMQ."""
