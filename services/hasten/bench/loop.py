"""How late a running system's event loop woke up, from its metrics."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

NAME = "hasten_loop_lag_seconds"
LIMIT_S = 0.02


async def samples(http: str) -> tuple[int, int] | None:
    """How often the loop has been sampled, and how often it was more than `LIMIT_S` late; None if it does not say."""
    try:
        async with httpx.AsyncClient(timeout=5) as client:
            text = (await client.get(f"{http}/metrics")).raise_for_status().text
    except httpx.HTTPError:
        return None
    counts: dict[str, int] = {}
    for family in text_string_to_metric_families(text):
        if family.name == NAME:
            counts |= {one.labels["le"]: int(one.value) for one in family.samples if one.name == f"{NAME}_bucket"}
    total = counts.get("+Inf", 0)
    return (total, total - counts[f"{LIMIT_S:g}"]) if counts else None
