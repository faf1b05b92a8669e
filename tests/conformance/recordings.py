"""What Apache Kafka was recorded to answer where whole answers are compared: too long to stand in the modules.

`python -m tests.conformance.oracle --record S01` asks Apache Kafka again. The scenarios of `versions` are kept in
`scenarios/versions.json`, all others in `scenarios/answers.json`.
"""

import json
import re
from functools import cache
from pathlib import Path

from tests.conformance.scenario import Facts

_HERE = Path(__file__).parent / "scenarios"
_OF_VERSIONS, _OF_OTHERS = _HERE / "versions.json", _HERE / "answers.json"
_RECORDED: dict[str, Path] = {}


@cache
def kept(path: Path) -> dict[str, Facts]:
    """The answers of a file, by scenario (nothing, if there is none)."""
    found: dict[str, Facts] = json.loads(path.read_text()) if path.exists() else {}
    return found


def keep(path: Path, new: dict[str, Facts]) -> None:
    """Add these answers to a file, or put them in the place of older ones."""
    path.write_text(json.dumps(dict(sorted((kept(path) | new).items())), indent=1) + "\n")


def recorded(id_: str) -> Facts:
    """What Apache Kafka was recorded to answer to this scenario (nothing, if it never was)."""
    path = _RECORDED.setdefault(id_, _OF_VERSIONS if id_.startswith("V") else _OF_OTHERS)
    return dict(kept(path).get(id_, {}))


def explained(id_: str, *beginnings: str) -> Facts:
    """For `differs`: these facts, with a text of ours beside the error where Apache Kafka has none."""
    facts = {name: fact for name, fact in recorded(id_).items() if name.startswith(beginnings)}
    return {name: re.sub(r"error_message (null)?(?=[,}])", "error_message text", fact) for name, fact in facts.items()}


def record(answers: dict[str, Facts]) -> None:
    """Keep what Apache Kafka answered to those scenarios that are recorded."""
    for path in (_OF_VERSIONS, _OF_OTHERS):
        new = {id_: facts for id_, facts in answers.items() if _RECORDED.get(id_) == path}
        if new:
            keep(path, new)
