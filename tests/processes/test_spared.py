"""`hasten up --without`: a deployment for exact hits needs no embedding model, and does everything else."""

from pathlib import Path

import pytest

from hasten.client import Hasten
from hasten.settings import SettingsError
from hasten.system import Wanted, system

pytestmark = pytest.mark.timeout(180)
QUESTION = "How do I return a parcel that I did not order?"


async def test_without_an_embedder_exact_hits_are_served_and_no_model_is_made(tmp_path: Path) -> None:
    wanted = Wanted(http="127.0.0.1:0", data=tmp_path, engine="sim", without=("embedder",))
    async with system(wanted, print) as made:
        assert not {"embedder", "retriever"} & set(made.runtime.units)
        await made.runtime.start(print)
        async with Hasten.connect(made.nats) as hasten:
            first = await hasten.ask(QUESTION)
            assert (first.cache, first.failure) == ("miss", None)
            generated = {first.text}
            while (again := await hasten.ask(QUESTION)).cache != "exact":
                assert again.failure is None
                generated.add(again.text)
            assert again.text in generated
        assert await made.runtime.drain()
        await made.runtime.close()
    assert not (tmp_path / "models").exists()


async def test_what_a_request_needs_cannot_be_left_out(tmp_path: Path) -> None:
    wanted = Wanted(data=tmp_path, without=("router", "cache"))
    with pytest.raises(SettingsError, match="--without router: only embedder, retriever, cache can be done without"):
        async with system(wanted, print):
            pass
