"""The slots of an engine whose prefix caches live in them: who gets which, and whose prompt each of them holds.

A prefix that is found is measured by whoever asks: so a slot shows what it has computed to the tenant it was for alone.
"""

import contextlib
import threading
from collections.abc import Iterator

TENTHS = 10
"""Slots are compared by so many parts of a prompt: what is less than one part is not worth overwriting a slot for."""


class Slot:
    """The slot at place `at`: the tenant whose prompt it holds (None for nobody's), that prompt, when it was taken."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.tenant: str | None = None
        self.prompt = b""
        self.since = 0
        self.held = False


class Hold:
    """One generation's time in a slot; `reuses` says whether it may find what the slot has computed before."""

    def __init__(self, slot: Slot, tenant: str, prompt: bytes) -> None:
        self._slot, self._tenant, self._prompt = slot, tenant, prompt
        self.at, self.reuses = slot.at, slot.tenant == tenant
        if not self.reuses:
            slot.tenant, slot.prompt = None, b""

    def began(self) -> None:
        """The slot holds this prompt now and nothing of the one before: until then it is nobody's."""
        self._slot.tenant, self._slot.prompt = self._tenant, self._prompt


class Slots:
    """Hands out `count` slots to threads; a slot is held until its generation has left the engine."""

    def __init__(self, count: int) -> None:
        self._slots = [Slot(at) for at in range(count)]
        self._changed = threading.Condition()
        self._holds = 0

    @contextlib.contextmanager
    def hold(self, tenant: str, prompt: bytes) -> Iterator[Hold]:
        """Holds the slot that suits a prompt best; waits in this thread while none is idle."""
        with self._changed:
            while not (idle := [slot for slot in self._slots if not slot.held]):
                self._changed.wait()
            slot = best(idle, tenant, prompt)
            self._holds += 1
            slot.held, slot.since = True, self._holds
            held = Hold(slot, tenant, prompt)
        try:
            yield held
        finally:
            with self._changed:
                slot.held = False
                self._changed.notify()


def best(idle: list[Slot], tenant: str, prompt: bytes) -> Slot:
    """The tenant's slot that holds most of the prompt, if that is worth anything; else, and of equals, the oldest."""

    def parts(slot: Slot) -> int:
        return TENTHS * common(slot.prompt, prompt) // max(1, len(prompt)) if slot.tenant == tenant else 0

    return min(idle, key=lambda slot: (-parts(slot), slot.since))


def common(left: bytes, right: bytes) -> int:
    """How many leading bytes are the same."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
