"""PySpark with Spark's own Kafka connector: orders in, what each customer spent out, from topic to topic.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION examples/spark_kafka.py [servers]

VERSION is that of your Spark. `format("barnabas")` takes the same options without the package (docs/SPARK.md).

Prints:
    ada spent 42
    ben spent 5
"""

from __future__ import annotations

import contextlib
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from barnabas import Broker

ORDERS = [("ada", '{"amount": 30}'), ("ben", '{"amount": 5}'), ("ada", '{"amount": 12}')]


def main(servers: str, checkpoint: str) -> None:
    """Write orders, add them up in a stream, and read the sums."""
    spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    kafka = {"kafka.bootstrap.servers": servers}
    orders = spark.createDataFrame(ORDERS, "key string, value string")
    orders.write.format("kafka").options(**kafka, topic="orders").save()

    read = spark.readStream.format("kafka").options(**kafka, subscribe="orders", startingOffsets="earliest").load()
    amount = f.from_json(f.col("value").cast("string"), "amount int")["amount"]
    spent = read.groupBy(f.col("key")).agg(f.sum(amount).cast("string").alias("value"))
    query = (
        spent.writeStream.format("kafka")
        .options(**kafka, topic="spent", checkpointLocation=checkpoint)
        .outputMode("update")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    sums = spark.read.format("kafka").options(**kafka, subscribe="spent").load()
    for row in sums.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").orderBy("key").collect():
        print(f"{row.key} spent {row.value}")


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        main(sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(Broker()).bootstrap_servers, directory)
