"""A replica of the cache, the store below it and a tenant who asks it, also through an orchestrator; and engines."""

from cache_rig import acme, cache, vectors
from engine_rig import engine, kind, slow
from path_rig import rig

__all__ = ["acme", "cache", "engine", "kind", "rig", "slow", "vectors"]
