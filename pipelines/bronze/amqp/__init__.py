"""AMQP 0-9-1 as RabbitMQ speaks it: connections, and what its queues hold."""
