"""Who a caller is: the key decides the tenant, and nothing else that a caller sends."""

from collections.abc import Mapping

from hasten.gateway.domain import check_tenant
from hasten.keys import KeyRing
from hasten.messages.failure import Failed


def tenant_of(headers: Mapping[str, str], keys: KeyRing) -> str:
    """The tenant of the bearer key; raises Failed(unauthorized), and Failed(forbidden) if another one is named."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    tenant = keys.tenant_of(key.strip()) if scheme.lower() == "bearer" else None
    if tenant is None:
        raise Failed("unauthorized", "the API key is missing or not known")
    check_tenant(tenant, headers.get("x-tenant-id"))
    return tenant
