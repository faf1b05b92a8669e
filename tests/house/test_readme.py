"""The README's examples do what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from barnabas import Broker

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


class Enough(Exception):
    """An endless example has shown what it can."""


def block(word: str) -> str:
    found = [text for text in BLOCKS if word in text]
    assert len(found) == 1, f"{len(found)} examples mention {word}"
    return str(found[0])


def test_every_example_is_python() -> None:
    assert len(BLOCKS) >= 4
    for text in BLOCKS:
        compile(text, "README.md", "exec")


def test_the_producer_and_the_consumer_run() -> None:
    said: list[tuple[Any, ...]] = []
    with Broker() as broker:
        exec(
            block("with Producer").replace("with Broker() as broker", "if True"),
            {"broker": broker, "print": lambda *a: said.append(a)},
        )
        assert said == [("orders", 0, 1000)]

        def show(*arguments: Any) -> None:
            said.append(arguments)
            if len(said) == 1002:
                raise Enough

        with pytest.raises(Enough):
            exec(block("with Consumer").replace("localhost:9092", broker.bootstrap_servers), {"print": show})
    assert said[1] == (0, 0, b"customer-0", {"number": 0})
    assert said[-1] == (0, 1000, None, {"number": 1000})


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", (README.parent / page).read_text()):
        assert (README.parent / target).exists(), target
