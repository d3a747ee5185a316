"""Checks of an operator's, as functions that a configuration names."""

import asyncio
import threading

from hasten.messages.check import Check, Checked, Correction


async def tides(tenant: str, asked: Check) -> Checked:
    """Finds a fault wherever the answer says twice, and says what it was told."""
    at = asked.text.find("twice")
    corrections = [Correction(start=at, end=at + 5, text="two times")] if at >= 0 else []
    return Checked(data={"question": asked.question, "passages": len(asked.passages)}, corrections=corrections)


def refuses(tenant: str, asked: Check) -> Checked:
    return Checked(passed=False, detail="not in our voice")


async def fails(tenant: str, asked: Check) -> Checked:
    raise RuntimeError


async def hangs(tenant: str, asked: Check) -> Checked:
    await asyncio.Event().wait()
    raise AssertionError


async def corrects_nowhere(tenant: str, asked: Check) -> Checked:
    return Checked(corrections=[Correction(start=5, end=10_000, text="x"), Correction(start=0, end=0, text="secret")])


def rambles(tenant: str, asked: Check) -> Checked:
    return Checked(detail="x" * 2_000_000, passed=False)


async def odd(tenant: str, asked: Check) -> Checked:
    """A Struct is not looked at when it is made."""
    return Checked(data={"at": object()})


async def odder(tenant: str, asked: Check) -> Checked:
    return Checked(passed="yes", corrections=7)  # type: ignore[arg-type]


def gives_up(tenant: str, asked: Check) -> Checked:
    raise SystemExit


def sleeps(tenant: str, asked: Check) -> Checked:
    threading.Event().wait()
    raise AssertionError
