"""The scenarios that need three brokers: played against three of Apache Kafka's and three of ours, as processes."""
