"""Exit codes: one for each kind of fault, the same in all commands."""

from __future__ import annotations

from typing import Final

REFUSED: Final = 1
WRONG: Final = 2
UNREACHED: Final = 3
HERE: Final = 4
INTERRUPTED: Final = 130
TERMINATED: Final = 143

TABLE: Final = {
    0: "done; whoever read the output and left has had enough",
    REFUSED: "refused: the broker said no, what was asked for is not there, or a log is broken",
    WRONG: "the call or its input is wrong",
    UNREACHED: "no broker: none can be reached, or none answered in time",
    HERE: "this machine: a file or the output failed, or a package is missing",
    INTERRUPTED: "ended by Ctrl-C (143: by SIGTERM)",
}
"""What each means, for help and documentation. `broker` and `health` have their own: see their help."""


_REMEDIES: Final = {
    "UNKNOWN_TOPIC_OR_PARTITION": "barnabas topics list shows those there are",
    "TOPIC_ALREADY_EXISTS": "--if-absent leaves it as it is, and barnabas topics alter changes it",
    "INVALID_TOPIC_EXCEPTION": "a name has 1 to 249 letters, digits, dots, underscores and dashes",
    "INVALID_CONFIG": "barnabas configs get --all shows settings and their values",
    "INVALID_REPLICA_ASSIGNMENT": "barnabas cluster shows the brokers there are",
    "PREFERRED_LEADER_NOT_AVAILABLE": "barnabas cluster status says who is in sync",
    "NOT_CONTROLLER": "nothing is decided until a majority of the controllers runs",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": "barnabas topics describe says who may lead: start one of them",
    "MESSAGE_TOO_LARGE": "send less at once, or raise max.message.bytes of the topic",
}


def told(error: BaseException) -> str:
    """An error as one sentence; where a broker said no, with what can be done about it."""
    code: str = getattr(getattr(error, "code", None), "name", "")
    remedy = _REMEDIES.get(code)
    if code == "INVALID_CONFIG":
        from barnabas.cli.near import setting_meant

        remedy = setting_meant(str(error)) or remedy
    return f"{error}; {remedy}" if remedy else str(error)


def code_of(error: BaseException) -> int:
    """The exit code that an error stands for."""
    from barnabas.net.errors import ClientTimeout, Disconnected

    if isinstance(error, ClientTimeout | Disconnected | ConnectionError):
        return UNREACHED
    if isinstance(error, ValueError):  # a setting, an argument, a record that is none
        return WRONG
    return HERE if isinstance(error, OSError) else REFUSED
