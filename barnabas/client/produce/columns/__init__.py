"""Columns into batches, without a Python object per record (`Producer.send_columns`).

`given` takes tables and checks them, `rows` cuts them into batches, `encode` makes the bytes of many records at once,
`murmur2` hashes their keys. A record by `send` costs microseconds, a row here a few tenths of one. numpy and pyarrow
are imported on first use.
"""
