"""Reads which keys a JetStream bucket holds, by asking the stream: a watch of nats-py can end before its first entry.

(Its marker for "that was all" is sent when nothing is pending on the server, which may be before the client has handled
what was delivered.)
"""

import nats.errors

from hasten.bus import Bus
from hasten.messages.failure import Failed


async def key_names(bus: Bus, bucket: str) -> list[str]:
    """Every key that the bucket has had and whose last word, be it a deletion, it still has; raises
    Failed(unavailable)."""
    prefix = f"$KV.{bucket}."
    try:
        info = await bus.js.stream_info(f"KV_{bucket}", subjects_filter=f"{prefix}>")
    except (nats.errors.Error, TimeoutError) as error:
        raise Failed("unavailable", f"the bucket {bucket} cannot be read ({type(error).__name__})") from None
    return sorted(subject.removeprefix(prefix) for subject in info.state.subjects or {})
