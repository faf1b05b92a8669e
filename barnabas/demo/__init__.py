"""The demo, `python -m barnabas.demo`: a year of flights through a broker into a PySpark streaming job, all real."""
