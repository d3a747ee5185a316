"""What an answer costs, in dollars, by the prices of the model table."""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from loadtest.sample import Sample


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


def charge(sample: Sample, table: Prices) -> None:
    """Writes the dollars of an answer into its sample: nothing for a model that has no price, and as saved what no
    model was asked for."""
    price = table.get(sample.model, Price())
    dollars = (sample.prompt_tokens * price.prompt + sample.completion_tokens * price.completion) / 1000
    sample.cost, sample.saved = (0.0, dollars) if sample.hit else (dollars, 0.0)
