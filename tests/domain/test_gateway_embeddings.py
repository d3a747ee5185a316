"""What is taken for an embeddings request."""

from typing import Any

import pytest

from hasten.gateway.embeddings import parse
from hasten.messages.failure import Failed


@pytest.mark.parametrize("name", ["model", "encoding_format", "dimensions", "user"])
def test_a_null_says_nothing(name: str) -> None:
    assert parse({"input": "abc", name: None}) == parse({"input": "abc"})


@pytest.mark.parametrize("body", [{}, {"input": None}, {"input": [1]}, {"input": ""}])
def test_what_holds_no_text_is_refused_by_its_field(body: dict[str, Any]) -> None:
    with pytest.raises(Failed, match=r"^bad_request: input must") as caught:
        parse(body)
    assert caught.value.failure.param == "input"
