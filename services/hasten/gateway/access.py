"""Who a caller is: the key decides the tenant, and nothing else that a caller sends."""

from collections.abc import Mapping

from hasten.caller import Caller
from hasten.gateway.domain import check_tenant
from hasten.keys import KeyRing
from hasten.messages.failure import Failed, Failure

NOT_KNOWN = (
    "the API key is missing or not known: send Authorization: Bearer hk-…; `hasten keys create TENANT` makes one"
)
"""Said of every key that gives no access, whatever became of it."""


def caller_of(headers: Mapping[str, str], keys: KeyRing) -> Caller:
    """The caller by its bearer key; raises Failed(unauthorized), and Failed(forbidden) if another tenant is named."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return known(key.strip() if scheme.lower() == "bearer" else "", headers, keys)


def known(key: str, headers: Mapping[str, str], keys: KeyRing) -> Caller:
    """The same for a key that came in another way."""
    caller = keys.caller_of(key)
    if caller is None:
        raise Failed("unauthorized", NOT_KNOWN)
    check_tenant(caller.tenant, headers.get("x-tenant-id"))
    return caller


def operator_of(headers: Mapping[str, str], keys: KeyRing) -> Caller:
    """The caller, who has to be an operator; raises Failed(unauthorized | forbidden)."""
    caller = caller_of(headers, keys)
    if not caller.operator:
        raise Failed.of(Failure(code="forbidden", detail="this needs a key made with `hasten keys create --operator`"))
    return caller
