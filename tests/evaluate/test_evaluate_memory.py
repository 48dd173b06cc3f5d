"""Peak memory, measured by the operating system in a process of its own, so that compiled code counts too."""

import subprocess
import sys
from pathlib import Path

import pytest

# Pairs of a query and a code: an array of one byte for each of them would break the limit by itself.
QUERIES, CODES, LIMIT = 1_500, 200_000, 150 << 20

SCRIPT = f"""
import numpy as np
import hashstream as hs

def peak():
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) << 10

rng = np.random.default_rng(0)
queries, codes = (rng.integers(0, 256, (n, 8), np.uint8) for n in ({QUERIES}, {CODES}))
if MULTI:
    labels = [(rng.random((n, 4)) < 0.2).astype(np.uint8) for n in ({QUERIES}, {CODES})]
else:
    labels = [rng.integers(0, 10, n) for n in ({QUERIES}, {CODES})]
hs.evaluate.retrieval(queries[:2], labels[0][:2], codes[:50], labels[1][:50], ties=TIES)
before = peak()
hs.evaluate.retrieval(queries, labels[0], codes, labels[1], ties=TIES)
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize(("ties", "multi"), [("aware", False), ("paper", False), ("aware", True)])
def test_no_array_of_queries_times_codes(ties, multi):
    assert QUERIES * CODES > 1.9 * LIMIT
    script = SCRIPT.replace("TIES", repr(ties)).replace("MULTI", repr(multi))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < LIMIT, f"{int(done.stdout) >> 20} MiB"
