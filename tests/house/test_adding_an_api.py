"""What CONTRIBUTING.md lists under "Adding an API" is there for every API, and each thing forgotten is found."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from barnabas.protocol.api import STEMS, VERSIONS, ApiKey

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
PLACES = re.findall(r"^\| `([\w/.*]+)` \|", PAGE.partition("### Adding an API")[2].partition("\n## ")[0], re.MULTILINE)

# What an API has in a file that it shares with the others; in a file of its own, the file is it.
SHARED = {
    "barnabas/protocol/api.py": r"^    ApiKey\.{NAME}: \(\d+, \d+\),$",
    "barnabas/broker/handlers/failures.py": r"^    ApiKey\.{NAME}: (?:_{STEM}|\w+\.\w+),$",
    "docs/NATIVE.md": r"\| {NUMBER} \| {TITLE} \| \d+-\d+ \|",
    "tests/conformance/raw.py": r'^    "{STEM}": {NUMBER},$',
    "tests/conformance/scenarios/versions*.py": r"^@versions\(\s*{NUMBER},",
}
ONE_ERROR_FOR_ALL = {
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.LIST_GROUPS,
    ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.LIST_CONFIG_RESOURCES,
}
"""Their answers have an error of their own at every version; `test_registry.py` holds the others to `failures.py`."""


def forgotten(root: Path, key: ApiKey) -> list[str]:
    """The places of the list that lack this API."""
    stem = STEMS[key]
    words = {"{NAME}": key.name, "{STEM}": stem, "{NUMBER}": str(int(key)), "{TITLE}": stem.title().replace("_", "")}
    lacking = []
    for place in PLACES:
        if place.endswith("failures.py") and key in ONE_ERROR_FOR_ALL:
            continue
        pattern = SHARED.get(place, "")
        for word, value in words.items():
            pattern = pattern.replace(word, value)
        text = "".join(path.read_text() for path in sorted(root.glob(place.replace("STEM", stem))))
        if not text or not re.search(pattern, text, re.MULTILINE):
            lacking.append(place)
    return lacking


def test_the_list_names_files_of_an_api_and_files_that_all_share() -> None:
    assert len(PLACES) == 8
    assert {place for place in PLACES if "STEM" not in place} == set(SHARED)


@pytest.mark.parametrize("key", [ApiKey(key) for key in VERSIONS], ids=lambda key: key.name)
def test_nothing_was_forgotten(key: ApiKey) -> None:
    assert forgotten(ROOT, key) == []


@pytest.mark.parametrize("place", PLACES)
def test_what_is_forgotten_is_found(place: str, tmp_path: Path) -> None:
    """A copy of the listed files alone, from which one API's part is taken out."""
    key = ApiKey.DELETE_RECORDS
    for each in PLACES:
        for source in ROOT.glob(each.replace("STEM", STEMS[key])):
            target = tmp_path / source.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    assert forgotten(tmp_path, key) == []
    for victim in list(tmp_path.glob(place.replace("STEM", STEMS[key]))):
        if "STEM" in place:
            victim.unlink()
            continue
        text = victim.read_text()
        for word in (key.name, STEMS[key], "DeleteRecords", f"@versions({int(key)}"):
            text = text.replace(word, "another")
        victim.write_text(text)
    assert forgotten(tmp_path, key) == [place]
