"""A document that could not be sent ends the run, whatever went wrong and whenever: it is never taken for done."""

import asyncio
from typing import Any, cast

import pytest

from hasten.client import Hasten
from hasten.delivery import BATCH, Delivery
from hasten.messages.failure import Failed
from hasten.messages.retrieve import Document


class Broken:
    """In place of a client that cannot store."""

    def __init__(self, error: Exception) -> None:
        self.error, self.asked = error, 0

    async def store(self, collection: str, document: Document, **_: Any) -> int:
        self.asked += 1
        raise self.error


def delivery(client: Broken) -> Delivery:
    return Delivery(cast(Hasten, client), "handbook", refused=pytest.fail, again=True)


@pytest.mark.parametrize("error", [Failed("unauthorized", "not yours"), RuntimeError("unforeseen")])
async def test_an_error_ends_the_run(error: Exception) -> None:
    run = delivery(Broken(error))
    await run.offer(Document(id="one", text="a text"), "one.md")
    with pytest.raises(type(error)):
        await run.finish()


async def test_an_error_before_the_end_is_told_at_the_end() -> None:
    client = Broken(Failed("unauthorized", "not yours"))
    run = delivery(client)
    for at in range(BATCH):
        await run.offer(Document(id=str(at), text="a text"), f"{at}.md")
    while run.on_the_way:
        await asyncio.sleep(0)
    assert client.asked == BATCH
    with pytest.raises(Failed):
        await run.finish()
