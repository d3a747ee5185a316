"""The model of documents that change: which versions were sent, which must be seen, and what is wrong about an answer;
pure.

Every version of a document says its number in each of its parts. A sequence is that of the message in the stream.
"""

import re

import msgspec

PARTS = 6
_SAID = re.compile(r"(\S+) in part (\d+) is (\d+) euro")


class Version(msgspec.Struct, kw_only=True):
    """One version that was sent: its number, whether it deletes, and its sequence once the stream has it."""

    number: int
    deleted: bool
    sequence: int | None = None


class Versions:
    """All versions of all documents, and from which one on each document must be seen. `wrong` are the sentences about
    answers that no order of events explains."""

    def __init__(self) -> None:
        self._sent: dict[str, list[Version]] = {}
        self._applied: dict[str, int] = {}
        self.wrong: list[str] = []

    def next(self, name: str, *, deleted: bool) -> Version:
        """A new version of a document, on its way from now on."""
        sent = self._sent.setdefault(name, [])
        sent.append(Version(number=len(sent), deleted=deleted))
        return sent[-1]

    def applied(self, name: str, sequence: int) -> None:
        """It was said that this version, or a newer one, is seen by the next question."""
        self._applied[name] = max(sequence, self._applied.get(name, 0))

    def floor(self, name: str) -> int:
        """The sequence that whoever asks from now on must see, or a later one."""
        return self._applied.get(name, 0)

    def last(self, name: str) -> Version | None:
        """The version that must be seen in the end."""
        return self._sent[name][-1] if name in self._sent else None

    def check(self, name: str, texts: list[str], floor: int, read_seq: int) -> None:
        """Judges the passages of one document in an answer to a question that was asked when `floor` was the floor."""
        seen = {(int(part), int(number)) for text in texts for who, part, number in _SAID.findall(text) if who == name}
        numbers = {number for _, number in seen}
        if len(numbers) > 1:
            self.wrong.append(f"{name}: versions {sorted(numbers)} in one answer")
        elif seen and len(seen) != PARTS:
            self.wrong.append(f"{name}: {len(seen)} of {PARTS} parts")
        elif not self._possible(name, numbers, max(floor, self._read(name, read_seq))):
            self.wrong.append(f"{name}: {numbers or 'nothing'} seen at {read_seq}, from {floor} on")

    def _read(self, name: str, read_seq: int) -> int:
        """The last version of a document among those that an answer says were applied."""
        known = [one.sequence for one in self._sent.get(name, []) if one.sequence and one.sequence <= read_seq]
        return max(known, default=0)

    def _possible(self, name: str, numbers: set[int], floor: int) -> bool:
        if not numbers and not floor:
            return True
        return any(
            one.number in numbers if numbers else one.deleted
            for one in self._sent.get(name, [])
            if one.sequence is None or one.sequence >= floor
        )


def text_of(name: str, version: Version) -> str:
    """The text of a version."""
    return "\n\n".join(
        f"# Part {part}\n\nThe fee for {name} in part {part} is {version.number} euro." for part in range(PARTS)
    )
