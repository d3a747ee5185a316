"""Every test may ask for a real nats-server and a connection to it.

What hypothesis tries is the same in every run, however slow the machine is; `--hypothesis-profile=default` tries other
things each time.
"""

from hypothesis import settings

from hasten.testing import bus, nats_server

__all__ = ["bus", "nats_server"]
settings.load_profile("ci")
