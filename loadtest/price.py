"""What an answer costs, in dollars, by the prices of the model table."""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from loadtest.sample import CACHED


class Priced(Protocol):
    """A row of the model table, or what a router says of one."""

    @property
    def name(self) -> str: ...
    @property
    def cost_per_1k_prompt(self) -> float: ...
    @property
    def cost_per_1k_completion(self) -> float: ...


class Price(msgspec.Struct, frozen=True):
    """Dollars per 1,000 tokens."""

    prompt: float = 0.0
    completion: float = 0.0


Prices = Mapping[str, Price]


def prices(models: Iterable[Priced]) -> dict[str, Price]:
    """The price of each model by its name."""
    return {one.name: Price(one.cost_per_1k_prompt, one.cost_per_1k_completion) for one in models}


def cost(table: Prices, model: str, cache: str, prompt_tokens: int, completion_tokens: int) -> float:
    """The dollars of one answer: nothing where no model was asked for it, or for a model that has no price."""
    if cache in CACHED:
        return 0.0
    price = table.get(model, Price())
    return (prompt_tokens * price.prompt + completion_tokens * price.completion) / 1000
