"""How an answer is written for its caller: what an exchange needs of each API that it can speak."""

from typing import Any, Protocol

from hasten.messages.chat import Done


class Wire(Protocol):
    """One answer in the form of one API. It is asked either for frames, of each event in turn, or to `see` every event
    and then for the body."""

    def frames(self, event: Any) -> bytes:
        """What a stream says of an event; nothing for what a client does not see."""

    def see(self, event: Any) -> None:
        """Takes in one event of a whole answer."""

    def body(self, done: Done) -> dict[str, Any]:
        """The whole answer."""
