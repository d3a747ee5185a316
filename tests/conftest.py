"""Every test may ask for a real nats-server and a connection to it."""

from hasten.testing import bus, nats_server

__all__ = ["bus", "nats_server"]
