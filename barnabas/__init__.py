"""A small, instant, transparent Kafka broker in Python, with its client and a PySpark source."""
