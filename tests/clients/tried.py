"""A table of what a client was tried with. Needs nothing but Python, as each client has an environment of its own."""

import sys
import traceback
from collections.abc import Callable


class Tried:
    """Runs one check after another (`case`), each a function that raises when something is wrong."""

    def __init__(self, client: str) -> None:
        self._client = client
        self._failed = 0
        self._rows: list[tuple[str, str]] = []

    def case(self, what: str, check: Callable[[], str]) -> None:
        """Runs a check, which returns what was seen in a few words."""
        try:
            self._rows.append((what, check()))
        except Exception as error:
            self._failed += 1
            self._rows.append((what, f"FAILED {type(error).__name__}: {str(error)[:200]}"))
            traceback.print_exc()

    def end(self) -> None:
        """Prints the table; leaves the process with 1 if anything has failed."""
        width = max(len(what) for what, _ in self._rows)
        print(f"\n{self._client}: {len(self._rows) - self._failed} of {len(self._rows)}")
        for what, seen in self._rows:
            print(f"  {what:<{width}}  {seen}")
        sys.exit(1 if self._failed else 0)


def same(seen: object, wanted: object) -> None:
    """Raises AssertionError with both when they differ."""
    assert seen == wanted, f"{seen!r} is not {wanted!r}"
