"""How probable tokens were, in OpenAI's form, from what servers say of it: whole where it can be, and always JSON."""

from typing import Any

LEAST_LOGPROB = -9999.0
"""What OpenAI says of a token that is all but impossible; the infinity of others is no JSON."""


def entries(plain: Any, alternatives: int) -> list[dict[str, Any]]:
    """The `content` of a choice's `logprobs`, each token with at most so many alternatives; what is no token is left
    out, and so are fields that are not OpenAI's."""
    found = plain.get("content") if isinstance(plain, dict) else None
    return [
        {
            **_entry(token),
            "top_logprobs": [_entry(other) for other in _tokens(token.get("top_logprobs"))][:alternatives],
        }
        for token in _tokens(found)
    ]


def logprob(plain: dict[str, Any]) -> float:
    """A token's natural logarithm, between `LEAST_LOGPROB` and 0."""
    return max(LEAST_LOGPROB, min(0.0, float(plain["logprob"])))


def _tokens(found: Any) -> list[dict[str, Any]]:
    return [one for one in found if _is_token(one)] if isinstance(found, list) else []


def _is_token(plain: Any) -> bool:
    if not isinstance(plain, dict) or not isinstance(plain.get("token"), str):
        return False
    value = plain.get("logprob")
    return isinstance(value, int | float) and value == value


def _entry(plain: dict[str, Any]) -> dict[str, Any]:
    """A token that is half a character has that half in its `bytes`, and a replacement character as its text."""
    text = plain["token"].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    raw = plain.get("bytes")
    whole = raw if isinstance(raw, list) and all(isinstance(one, int) and 0 <= one < 256 for one in raw) else None
    return {"token": text, "logprob": logprob(plain), "bytes": whole if whole is not None else list(text.encode())}
