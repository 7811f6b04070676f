"""Memory that was freed goes back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FREED = """
from pathlib import Path
from dpsql.runtime.memory import give_back

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

held = [bytes(50_000) for _ in range(2_000)]  # small enough for the heap, which shrinks from its end alone
last = bytes(50_000)
del held
before = resident()
give_back()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_freed_memory_goes_back_to_the_system():
    found = subprocess.run([sys.executable, "-c", FREED], check=True, capture_output=True, text=True)
    assert int(found.stdout) > 50_000_000
