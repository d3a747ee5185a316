"""Says what became of documents: to the tenant when one can be found or was refused, to operators when a row was."""

import contextlib

import nats.errors
from nats.aio.msg import Msg

from hasten.bus import Bus
from hasten.dead_letters import DeadLetters
from hasten.messages.change import CHANGE, TENANT_CHANGE, Change
from hasten.messages.failure import Failed
from hasten.messages.retrieve import INGESTED, Document, Ingested
from hasten.retriever.domain import Refused
from hasten.retriever.intake import sequence
from hasten.retriever.reading import address
from hasten.retriever.records import Key, Manifest
from hasten.retriever.rows import Emptied, Mail
from hasten.telemetry import counter, logger

log = logger("retriever")
BUS_ERRORS = (nats.errors.Error, TimeoutError)
_documents = counter("retriever_documents_total", "Document messages, by what became of them", "op", "outcome")


class Herald:
    """What is said may be lost, and is true all the same; dead letters and evictions are stored."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self._letters = bus, DeadLetters(bus)

    async def applied(self, mail: Mail, manifest: Manifest) -> None:
        """A version is the current one, or a newer one is."""
        op, outcome = mail.document.op, "applied" if manifest.version == mail.sequence else "superseded"
        _documents.labels(op, outcome).inc()
        event = Ingested(
            collection=mail.key.collection,
            id=mail.key.document,
            sequence=mail.sequence,
            op=op,
            chunks=manifest.chunks,
        )
        await self._say(mail.key, event)

    def emptied(self) -> None:
        """All documents of a table are gone."""
        _documents.labels("truncate", "applied").inc()

    def retried(self, mail: Mail, error: Exception) -> None:
        """A version could not be applied now."""
        _documents.labels(mail.document.op, "retried").inc()
        log.info("document message %d is tried again: %s", mail.sequence, type(error).__name__)

    def buried(self, msg: Msg, reason: str) -> None:
        """A row makes no document: that is a dead letter."""
        _documents.labels("row", "refused").inc()
        self._letters.post(sequence(msg), msg.subject, reason, len(msg.data), "document")

    async def refused(self, msg: Msg, key: Key | None, document: Document, reason: str) -> None:
        """A message is given up for good. The tenant hears why, if that is known; the log has the number only."""
        at = sequence(msg)
        log.warning("document message %d was refused", at)
        _documents.labels(document.op, "refused").inc()
        with contextlib.suppress(Refused):
            key = key or address(msg.subject)
            await self._say(
                key, Ingested(collection=key.collection, id=document.id, sequence=at, op=document.op, error=reason)
            )

    async def _say(self, key: Key, event: Ingested) -> None:
        with contextlib.suppress(*BUS_ERRORS, Failed):
            await self._bus.publish(INGESTED, event, tenant=key.tenant)

    async def late(self, step: Mail | Emptied) -> None:
        """Evicts the answers that were made of what was there before, but after others took this for applied."""
        if isinstance(step, Emptied):
            table = Change(tags=[step.origin, step.origin.rpartition(".")[2]], reason="applied late")
            await self._bus.store(CHANGE, table, source="retriever")
        else:
            tags = [f"document:{step.key.collection}/{step.key.document}", f"collection:{step.key.collection}"]
            await self._bus.store(TENANT_CHANGE, Change(tags=tags, reason="applied late"), tenant=step.key.tenant)

    async def close(self) -> None:
        """Stores the letters that are left."""
        await self._letters.close()
