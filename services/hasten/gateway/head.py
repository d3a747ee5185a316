"""What is known of an answer before its first token: it goes into the headers, and the model into every chunk."""

from typing import Any
from urllib.parse import quote

from hasten.messages.chat import Done, Note

_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


class Head:
    """Gathers the facts about one answer from its events (`see`)."""

    def __init__(self, request_id: str, asked_model: str) -> None:
        self.request_id = request_id
        self._asked_model = asked_model
        self._model = ""
        self._cache = ""
        self._hit: dict[str, Any] = {}
        self._reason = ""

    @property
    def model(self) -> str:
        """The model that answers; the one asked for as long as that is not known."""
        return self._model or self._asked_model

    def see(self, event: Any) -> None:
        """Takes in one event of the stream."""
        if isinstance(event, Done):
            self._cache, self._model = event.cache, event.model or self._model
        elif isinstance(event, Note) and event.kind in ("cache", "route"):
            self._model = event.data.get("model") or self._model
            hit = event.data.get("hit")
            if hit:
                self._cache, self._hit = str(hit), event.data
            elif event.kind == "cache" and "stored" not in event.data:
                self._reason = " ".join(str(event.data[name]) for name in ("reason", "guard") if event.data.get(name))
            elif event.kind == "route":
                self._cache = self._cache or "miss"

    def headers(self) -> dict[str, str]:
        """The `x-hasten-*` headers that can be given so far, and `Age` for a stored answer."""
        found = {
            "x-hasten-request-id": self.request_id,
            "x-hasten-cache": self._cache,
            "x-hasten-model": self._model,
            "x-hasten-entry": str(self._hit.get("entry_id") or ""),
            "x-hasten-cache-reason": self._reason,
        }
        if (similarity := self._hit.get("similarity")) is not None:
            found["x-hasten-similarity"] = f"{similarity:.4f}"
        if (age_s := self._hit.get("age_s")) is not None:
            found["Age"] = str(int(age_s))
        return {name: quote(value, safe=_PRINTABLE) for name, value in found.items() if value}
