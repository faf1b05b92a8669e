"""The client: producer, consumer and admin over one network layer (`barnabas.net`), in either dialect.

`produce` and `consume` decide and never wait; the modules beside them are the shells, which only wait.
"""
