"""Load tests: commands that measure or try to break a running system, too long for the tests."""
