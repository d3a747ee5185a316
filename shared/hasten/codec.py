"""JSON to Structs and back, with a limit on nesting; an error quotes no content and is an answer, not a traceback."""

from typing import Any

import msgspec
import numpy as np

from hasten.messages.failure import Failed, without_value
from hasten.topics import Topic

MAX_NESTING = 64
encode = msgspec.json.Encoder().encode
"""A Struct as JSON."""
_TOO_DEEP = f"the body is not JSON of at most {MAX_NESTING} levels"


# The code of a backslash is between those of the square brackets: its distance to them is a step down or up.
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(byte for byte in range(256) if byte not in b'[]{}"')


def nesting(raw: bytes) -> int:
    """Depth of a JSON text's brackets outside of strings; 0 for a text with few.

    Without recursion and without a loop over the bytes: of a megabyte it must be known before the event loop is
    missed. Only quotes and brackets are kept, and of these what is not between quotes.
    """
    if raw.count(b"{") + raw.count(b"[") <= MAX_NESTING:
        return 0
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_ONE_KIND, _OTHERS)
    brackets = b"".join(unescaped.replace(b'""', b"").split(b'"')[::2])
    steps = ord("\\") - np.frombuffer(brackets, dtype=np.int8)
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


_decoders: dict[int, tuple[Any, msgspec.json.Decoder[Any]]] = {}
"""By identity, since a union takes longer to hash than a small message to decode; the kind is kept beside."""


def decode(kind: Any, raw: bytes) -> Any:
    """Decodes JSON into a Struct type or union; raises Failed(bad_request) with a reason that quotes no content."""
    if nesting(raw) > MAX_NESTING:
        raise Failed("bad_request", _TOO_DEEP)
    known = _decoders.get(id(kind))
    if known is None:
        known = _decoders.setdefault(id(kind), (kind, msgspec.json.Decoder(kind)))
    try:
        return known[1].decode(raw or b"{}")
    except msgspec.ValidationError as error:
        raise Failed("bad_request", without_value(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Failed("bad_request", "the body is not valid JSON") from None


def decode_request(topic: Topic, raw: bytes) -> Any:
    """The body of a request of this topic; raises Failed(bad_request)."""
    if topic.decode is None:
        return decode(topic.request, raw)
    if nesting(raw) > MAX_NESTING:
        raise Failed("bad_request", _TOO_DEEP)
    return topic.decode(raw)
