"""Who calls at the HTTP edge and what that one may do: what is kept of a key, and of a tenant as a whole."""

from typing import Annotated, Literal

import msgspec

from hasten.settings import SettingsError

Amount = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
MOST_S = 36_525 * 86400
"""A century."""
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may be used up; 0 means without limit. Requests and tokens are per minute, and a minute's worth may be used
    at once. `budget_usd` is what the answers of one UTC day or month (`budget_per`) may cost by the model table."""

    requests_per_minute: Amount = 0
    tokens_per_minute: Amount = 0
    budget_usd: Annotated[float, msgspec.Meta(ge=0, le=2**53)] = 0.0
    budget_per: Literal["day", "month"] = "month"

    @property
    def said(self) -> str:
        """For a person, empty when there are none."""
        parts = [
            f"{self.requests_per_minute} requests/min" if self.requests_per_minute else "",
            f"{self.tokens_per_minute} tokens/min" if self.tokens_per_minute else "",
            f"${self.budget_usd:g} a {self.budget_per}" if self.budget_usd else "",
        ]
        return ", ".join(part for part in parts if part)


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a key beside its digest. `prefix` is how the key begins, to recognise it by; `expires_ms` is when
    it ends to be valid (unix ms, 0: never); an `operator` may also publish change events and reject hits over HTTP."""

    tenant: str
    label: str = ""
    created_ms: int = 0
    prefix: str = ""
    operator: bool = False
    expires_ms: int = 0
    limits: Limits = Limits()


class TenantRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all keys of a tenant share."""

    limits: Limits = Limits()


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a request: the tenant that the key stands for, the key's public id, whether it is an operator's, and the
    limits of the key and of the tenant, which both hold."""

    tenant: str
    key_id: str
    operator: bool = False
    limits: Limits = Limits()
    tenant_limits: Limits = Limits()


def duration_s(text: str) -> float:
    """Seconds in a duration such as 30d, 12h, 90m or 45s (w: weeks), of a century at most; raises SettingsError for
    anything else."""
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdecimal() and unit in _UNITS_S and int(number[:9]) > 0 and len(number) < 10):
        raise SettingsError(f"{text} is no duration: give a number and one of s, m, h, d and w, such as 30d")
    if (seconds := int(number) * _UNITS_S[unit]) > MOST_S:
        raise SettingsError(f"{text} is too long: give {MOST_S // 86400}d at most, or none for what does not end")
    return float(seconds)
