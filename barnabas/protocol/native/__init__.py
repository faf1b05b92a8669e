"""The native dialect `BNB1`: length-prefixed msgpack, derived from the dataclasses (see docs/NATIVE.md)."""
