"""A tool of the operator's, which a service asks: a function of this process, or whoever answers on a subject."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

import msgspec

from hasten.aside import Aside
from hasten.bus import Bus
from hasten.messages.failure import Failed, Failure
from hasten.settings import SettingsError
from hasten.telemetry import logger
from hasten.topics import Topic

log = logger("tool")


class Named(Protocol):
    """The settings that say who is asked: a `call`, or else a `subject`."""

    @property
    def name(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def call(self) -> str: ...


THREADS = 16
"""Of one function that is not async; it is asked no more than so many times at once."""
MOST_BYTES = 64 * 1024
"""Of an answer: it goes on to readers and into stored answers, in messages that have a limit."""
Ask = Callable[[str, Any, float], Awaitable[Any]]
"""Of a tenant, a body and a deadline (unix ms); returns the topic's reply or raises Failed."""


def check(where: str, named: Named, topic: Topic, group: str) -> None:
    """Raises SettingsError for a function that is not there, and for a subject that cannot be asked: it is the topic's,
    or one of the tool's own with `{tenant}` for a token."""
    if named.call:
        imported(where, named.call, group)
    if not named.subject or named.subject == topic.template:
        return
    tokens = named.subject.split(".")
    plain = [token for token in tokens if token not in {f"{{{name}}}" for name in topic.tokens}]
    if "{tenant}" not in tokens:
        raise SettingsError(f"{where}: the subject has to have {{tenant}} for one of its tokens")
    if not all(token and token.isascii() and token.replace("-", "").replace("_", "").isalnum() for token in plain):
        raise SettingsError(f"{where}: the tokens of a subject are letters, digits, _ and -, or {{tenant}}")
    if tokens[0] in ("hasten", "_INBOX"):
        raise SettingsError(f"{where}: a subject is {topic.template}, or does not begin with {tokens[0]}")


def tool(bus: Bus, where: str, named: Named, topic: Topic, group: str) -> Ask:
    """How to ask it; raises SettingsError for a function that is not there. `call` is `package.module:function`, or the
    name of an entry point of the group."""
    reply = next(kind for kind in topic.reply.__args__ if kind is not Failure)
    if not named.call:
        return _heard(bus, where, named, topic)
    return _called(imported(where, named.call, group), reply, named.name)


def _heard(bus: Bus, where: str, named: Named, topic: Topic) -> Ask:
    kinds = " or ".join(str(kind.__struct_config__.tag) for kind in topic.reply.__args__)
    told = False
    own = msgspec.structs.replace(topic, queue=named.name, template=named.subject or topic.template)
    last = topic.tokens[-1]

    async def ask(tenant: str, body: Any, deadline_ms: float) -> Any:
        tokens: dict[str, Any] = {"tenant": tenant, last: named.name}
        nonlocal told
        reply = await bus.request(own, body, deadline_ms=deadline_ms, **tokens)
        if isinstance(reply, Failure):
            if reply.code == "internal" and not told:
                told = True
                log.warning("%s: its tool failed, or its reply is not JSON with the type %s", where, kinds)
            raise Failed.of(reply)
        _checked_size(msgspec.json.encode(reply))
        return reply

    return ask


def _called(function: Callable[..., Any], reply: Any, name: str) -> Ask:
    """An async function is awaited on the loop, and must not block it; any other runs in a thread.

    What it returns is written and read as it would be on the bus: a Struct that was made with anything in it is no
    better than a dict.
    """
    threads = None if asyncio.iscoroutinefunction(function) else Aside(name, THREADS)

    async def ask(tenant: str, body: Any, _: float) -> Any:
        work = partial(function, tenant, body)
        made = await (work() if threads is None else threads.run(work))
        try:
            raw = msgspec.json.encode(made)
            _checked_size(raw)
            return msgspec.json.decode(raw, type=reply)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
            raise Failed("internal", "the function returned something else than it should") from None

    return ask


def _checked_size(raw: bytes) -> None:
    if len(raw) > MOST_BYTES:
        raise Failed("too_large", f"the answer has {len(raw)} bytes, at most {MOST_BYTES} are taken")


def imported(where: str, call: str, group: str) -> Callable[..., Any]:
    """The function by its name; raises SettingsError when there is none."""
    said = f"{where} call = {call!r}"
    found = [EntryPoint(call, call, group)] if ":" in call else list(entry_points(group=group, name=call))
    if not found:
        raise SettingsError(f"{said}: no entry point of the group {group} has this name")
    try:
        function = found[0].load()
    except Exception as error:
        raise SettingsError(
            f"{said} cannot be imported ({type(error).__name__}): is it installed here, or on PYTHONPATH?"
        ) from None
    if not callable(function):
        raise SettingsError(f"{said} is no function")
    return function  # type: ignore[no-any-return]
