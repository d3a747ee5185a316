"""The headers that services need without decoding a body, and the one clock of deadlines."""

import time

REQUEST_ID = "Hasten-Request-Id"
DEADLINE = "Hasten-Deadline"
"""Absolute, unix milliseconds; every stage subtracts from it and none restarts it."""
TENANT = "Hasten-Tenant"
"""The tenant, on subjects that have no token for it; only services may publish there."""
RESUMABLE = "Hasten-Resumable"
"""Set by a reader that asks again when its stream is lost: the answer goes on for a while without it."""
DEFAULT_TIMEOUT_S = 60.0


def now_ms() -> float:
    """Unix time in milliseconds, the clock of deadlines."""
    return time.time() * 1000
