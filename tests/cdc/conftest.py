"""A hasten, a PostgreSQL and Debezium between the two, for the live tests."""

from cdc_rig import machine, nats, postgres, rig

__all__ = ["machine", "nats", "postgres", "rig"]
