"""A replica of the cache, the store below it and a tenant who asks it, also through an orchestrator."""

from cache_rig import acme, cache, vectors
from path_rig import rig

__all__ = ["acme", "cache", "rig", "vectors"]
