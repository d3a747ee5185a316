"""Whether a task was told to end, where asyncio alone would not tell it."""

import asyncio


def cancelled() -> bool:
    """Whether the task that asks was told to end. A loop that waits for replies has to look: asyncio.wait_for of Python
    3.11, which nats-py uses, can swallow the cancellation."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
