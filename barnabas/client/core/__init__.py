"""The client without I/O: time and chance are arguments; bytes, decisions and deadlines come out."""
