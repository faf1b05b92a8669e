"""Lets Spark find the format `barnabas` by its name (PySpark imports top-level packages named `pyspark_*`)."""
