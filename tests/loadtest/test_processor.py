"""Processor time by service, of processes that run and of one that has ended."""

import os
import subprocess
import sys
import time

from loadtest.processor import GENERATOR, Meter


def test_whoever_computes_is_the_busiest() -> None:
    idle = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        meter = Meter({"idle": [idle.pid], "none": []})
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
        found = meter.read()
        assert next(iter(found)) == GENERATOR
        assert found[GENERATOR].cores > 0
        assert found["idle"].processes == 1
        assert "none" not in found
    finally:
        idle.communicate(b"\n")


def test_a_process_that_ends_meanwhile_is_no_fault() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    meter = Meter({"own": [os.getpid()], "ends": [child.pid]})
    child.communicate(b"\n")
    assert meter.read()["ends"].cores == 0
