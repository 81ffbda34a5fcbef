"""What the shell completes, as bash asks for it."""

import json
import os
import subprocess
import sys

import pytest

from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.suites import SUITES, find_suite
from roarbench.protocols import PROTOCOLS, SHOWN
from roarbench.terms import Unit

ASK = """
import json, os, sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from roarbench.cli.main import main
sys.argv, offered = ["roarbench"], []
for line in json.load(sys.stdin):
    os.environ |= {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    with redirect_stdout(StringIO()) as told, suppress(SystemExit):
        main()
    offered.append(told.getvalue().split())
print(json.dumps([offered, sorted({"torch", "numpy", "sqlalchemy"} & set(sys.modules))]))
"""


OFFERED = {
    "roarbench table --suite ": [*SUITES],
    "roarbench claims --suite qu": [name for name in SUITES if name.startswith("qu")],
    "roarbench validity --against planted-s": ["planted-smooth"],
    "roarbench table --protocol ": [*SHOWN],
    "roarbench run --protocol ": [*PROTOCOLS],
    "roarbench plot --unit ": [*Unit],
    "roarbench table --estimators var-": [name for name in ESTIMATORS if name.startswith("var-")],
    "roarbench table --suite quick-matched --estimators grad,sgs": ["grad,sgsq-grad"],
    "roarbench plan --suite quick --estimators ": [*find_suite("quick").estimators],
    "roarbench table --suite quick@1 --estimators var-grad(": ["var-grad(noise=", "var-grad(samples="],
    "roarbench table --suite quick@1 --estimators grad(": [],
    "roarbench table --suite quick@1 --estimators var-grad(noise=0.05),sobel-": ["var-grad(noise=0.05),sobel-released"],
}


@pytest.mark.process
def test_names_are_completed_and_nothing_heavy_is_imported_for_it() -> None:
    environment = os.environ | {"_ROARBENCH_COMPLETE": "complete_bash"}
    ask = [sys.executable, "-c", ASK]
    asked = json.dumps([*OFFERED])
    done = subprocess.run(ask, input=asked, env=environment, capture_output=True, text=True, timeout=120)
    offered, heavy = json.loads(done.stdout)
    assert dict(zip(OFFERED, offered, strict=True)) == OFFERED, done.stderr
    assert heavy == []
