"""What every conversation can answer instead of its result, and the closed list of reasons."""

import re
from typing import Literal, get_args

from hasten.topics import Reply

Code = Literal[
    "bad_request",
    "too_large",
    "context_overflow",
    "unsupported",
    "unauthorized",
    "not_found",
    "model_not_found",
    "overloaded",
    "unavailable",
    "deadline",
    "cancelled",
    "draining",
    "disconnected",
    "upstream",
    "incomplete",
    "internal",
]
CODES: tuple[str, ...] = get_args(Code)
RETRYABLE = frozenset({"overloaded", "unavailable", "draining", "disconnected", "upstream", "incomplete"})


_VALUE = re.compile(r"^(Invalid (?:enum )?value) .*", re.DOTALL)


def without_value(problem: str) -> str:
    """The text of a validation error without the value that it quotes, which is content; the path stays."""
    what, found, path = problem.rpartition(" - at `")
    return _VALUE.sub(r"\1", what or path) + (found + path if found else "")


class Failure(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """The request ended without its result.

    `code` is one of `CODES`; `detail` one sentence for a person, without prompt, answer or secret; `param` the
    offending field of the request; `retry_after_ms` when to come back; `tokens_sent` how many chunks of an answer had
    reached the reader; `model` which model failed.
    """

    code: str
    detail: str = ""
    param: str | None = None
    retry_after_ms: int | None = None
    tokens_sent: int = 0
    model: str | None = None


class Failed(Exception):
    """Raised by a handler to answer with a Failure, and by a client that wants an exception instead of one."""

    def __init__(self, code: Code, detail: str, *, param: str | None = None, retry_after_ms: int | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.failure = Failure(code=code, detail=detail, param=param, retry_after_ms=retry_after_ms)

    @classmethod
    def of(cls, failure: Failure) -> "Failed":
        """The exception that carries exactly this failure."""
        made = cls("internal", failure.detail)
        made.failure = failure
        made.args = (f"{failure.code}: {failure.detail}",)
        return made
