"""What is closed at the end of a ``with``, wherever it was opened."""

from __future__ import annotations

import threading

import pytest

from discorank.metrics.execution.close_at_end import close_all_at_end, close_at_end


class Door:
    """Notes that it is closed, and fails to if it is stuck."""

    def __init__(self, name: str, closed: list[str], is_stuck: bool = False) -> None:
        self.name, self.closed, self.is_stuck = name, closed, is_stuck

    def close(self) -> None:
        self.closed.append(self.name)
        if self.is_stuck:
            raise OSError(f"{self.name} is stuck")


def command(closed: list[str], error: BaseException | None = None) -> None:
    """Opens three doors, the second of which is stuck, and raises an error, if given."""
    with close_all_at_end():
        for name in "abc":
            close_at_end(Door(name, closed, is_stuck=name == "b"))
        assert not closed
        if error is not None:
            raise error


def test_the_last_is_closed_first_and_none_is_left_out() -> None:
    closed: list[str] = []
    with pytest.raises(OSError, match="b is stuck"):
        command(closed)
    assert closed == ["c", "b", "a"]


@pytest.mark.parametrize("error", [ValueError("of the command"), KeyboardInterrupt("a signal")])
def test_an_error_is_not_hidden_by_one_of_closing(error: BaseException) -> None:
    closed: list[str] = []
    with pytest.raises(type(error), match=str(error)):
        command(closed, error)
    assert closed == ["c", "b", "a"]


def test_each_closes_its_own() -> None:
    closed: list[str] = []
    with close_all_at_end():
        close_at_end(Door("outer", closed))
        with close_all_at_end():
            close_at_end(Door("inner", closed))
        assert closed == ["inner"]
        thread = threading.Thread(target=close_at_end, args=(Door("of a thread", closed),))
        thread.start()
        thread.join()
    close_at_end(Door("of nobody", closed))
    assert closed == ["inner", "outer"]
