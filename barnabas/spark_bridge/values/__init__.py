"""Values with a schema: columns from Avro and Protobuf, for which Spark alone needs a jar. JSON is Spark's `from_json`.

    from barnabas.spark_bridge.values import from_avro

    orders = stream.select(from_avro("value", ORDER_SCHEMA, registry="http://localhost:8081").alias("order"))

Each takes a column (or its name) and gives a struct, with nulls where the value is null.
"""

from __future__ import annotations

from barnabas.spark_bridge.values.avro import from_avro, to_avro
from barnabas.spark_bridge.values.protobuf import from_protobuf
from barnabas.spark_bridge.values.registry import BadValue, RegistryAway, latest_schema

__all__ = ["BadValue", "RegistryAway", "from_avro", "from_protobuf", "latest_schema", "to_avro"]
