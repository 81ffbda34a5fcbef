"""Ending on SIGTERM: at once, or once the training is kept."""

import signal
import subprocess
import sys

import pytest

from roarbench.workers import stopping

AT_ONCE = """
import time
from roarbench.workers.stopping import asked, deferred, end_when_asked
end_when_asked()
with deferred():
    print("ready", flush=True)
    while not asked():
        time.sleep(0.01)
    print("kept", flush=True)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.process
def test_a_process_ends_at_once_but_for_the_block_that_keeps_something():
    with subprocess.Popen([sys.executable, "-c", AT_ONCE], stdout=subprocess.PIPE, text=True) as process:
        for word in ("ready", "kept", "ready"):
            assert process.stdout.readline().strip() == word
            if word == "ready":
                process.send_signal(signal.SIGTERM)
        assert process.wait(60) == stopping.ENDED == 143
