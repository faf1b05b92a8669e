"""The table of a connection's states: what is in it goes, what is not does not."""

from __future__ import annotations

import pytest

from barnabas.broker.host.states import MOVES, State, move


def test_every_state_has_its_row_and_ends_in_gone() -> None:
    assert set(MOVES) == set(State)
    assert all(State.GONE in MOVES[state] for state in State if state is not State.GONE)


@pytest.mark.parametrize("old", State)
@pytest.mark.parametrize("new", State)
def test_only_moves_of_the_table_are_made(old: State, new: State) -> None:
    legal = {
        (State.OPENING, State.OPEN),
        (State.OPENING, State.LEAVING),
        (State.OPENING, State.GONE),
        (State.OPEN, State.LEAVING),
        (State.OPEN, State.GONE),
        (State.LEAVING, State.GONE),
    }
    if (old, new) in legal:
        assert move(old, new) is new
    else:
        with pytest.raises(AssertionError, match=f"from {old.value} to {new.value}"):
            move(old, new)
