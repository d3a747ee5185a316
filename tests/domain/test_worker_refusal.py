"""What an engine's refusal means: whose fault it is, and when to come back."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from hasten.worker.engines.answer import Answer
from hasten.worker.engines.engine import EngineError
from hasten.worker.engines.refusal import LONGEST_RETRY_MS, refusal, retry_after_ms, trouble
from hasten.worker.engines.sse import BadStream


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"message": "overloaded_error"}, "upstream"),
        ("plain text", "upstream"),
        ({"code": 400, "type": "BadRequestError"}, "bad_request"),
        ({"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}, "context_overflow"),
        ({"code": "context_length_exceeded"}, "context_overflow"),
        ({"code": 429}, "overloaded"),
        ({"code": "rate_limit", "type": None}, "upstream"),
    ],
)
def test_an_error_in_the_stream_ends_the_answer(error: Any, code: str) -> None:
    with pytest.raises(EngineError) as caught:
        Answer().take({"error": error})
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "bad_request"),
        (422, "bad_request"),
        (413, "too_large"),
        (429, "overloaded"),
        (401, "upstream"),
        (404, "upstream"),
        (500, "upstream"),
        (503, "upstream"),
        (301, "upstream"),
    ],
)
def test_a_status_says_whose_fault_it_is(status: int, code: str) -> None:
    assert refusal({}, status).code == code


def test_a_refusal_repeats_no_word_that_could_be_a_secret() -> None:
    error = {
        "message": "Incorrect API key provided: sk-test-9f3a, prompt was 'My IBAN'",
        "type": "sk-test-9f3a",
        "code": "invalid_api_key",
        "param": "sk-test-9f3a",
    }
    made = refusal(error, 400)
    assert "sk-" not in str(made)
    assert "IBAN" not in str(made)
    assert "invalid_api_key" in made.detail
    assert made.param is None
    assert refusal({"param": "temperature"}, 400).param == "temperature"


def test_when_to_come_back() -> None:
    assert retry_after_ms({"retry-after": "7"}, {}) == 7000
    assert retry_after_ms({"retry-after": "0.5"}, {}) == 500
    assert retry_after_ms({"retry-after-ms": "120", "retry-after": "7"}, {}) == 120
    assert retry_after_ms({"retry-after": "99999999"}, {}) == LONGEST_RETRY_MS
    assert retry_after_ms({}, {}) is None
    assert retry_after_ms({"retry-after": "soon"}, {}) is None
    later = retry_after_ms({"retry-after": format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)}, {})
    assert later is not None
    assert 20_000 < later <= 30_000
    assert retry_after_ms({"retry-after": format_datetime(datetime(2001, 1, 1, tzinfo=UTC), usegmt=True)}, {}) == 0


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        ({"retry_after_ms": 250}, 250),
        ({"retry_after": 7}, 7000),
        ({"retry_after": "1.5"}, 1500),
        ({"retry_after": -1}, None),
        ({"details": [{"reason": "x"}, {"retryDelay": "8s"}]}, 8000),
        ({"details": "none"}, None),
        ({"message": "Rate limit reached. Please try again in 20s. Visit https://x"}, 20_000),
        ({"message": "Please try again in 6m0s."}, 360_000),
        ({"message": "Please try again in 1m20.5s."}, 80_500),
        ({"message": "please retry after 120ms"}, 120),
        ({"message": "Try again in a moment"}, None),
        ({}, None),
    ],
)
def test_when_to_come_back_from_the_body(error: dict[str, Any], wanted: int | None) -> None:
    assert retry_after_ms({}, error) == wanted
    assert retry_after_ms({"retry-after": "3"}, error) == 3000


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, your prompt contains at least 4300 input tokens.",
        "This model's maximum context length is 4096 tokens. However, your prompt contains 99999 characters.",
    ],
)
def test_an_overflow_without_a_code_is_known_by_its_words(message: str) -> None:
    made = refusal({"message": message, "type": "BadRequestError", "code": 400}, 400)
    assert made.code == "context_overflow"
    assert refusal({"message": message}, 500).code == "upstream"


@pytest.mark.parametrize(
    "error", [BadStream("an event does not hold JSON"), httpx.ReadError("IBAN"), httpx.ConnectTimeout("x")]
)
def test_what_breaks_an_exchange_is_the_servers(error: Exception) -> None:
    made = trouble(error)
    assert isinstance(made, EngineError)
    assert (made.code, made.retry_after_ms) == ("upstream", 1000)
    assert "IBAN" not in made.detail
    assert trouble(made) is made
