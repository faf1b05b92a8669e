"""A real Apache Kafka, as the oracle that behaviour and speed are compared with."""
