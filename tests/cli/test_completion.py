"""What the shell completes, as bash asks for it."""

import os
import subprocess
import sys

import pytest

from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.suites import SUITES, find_suite
from roarbench.terms import PROTOCOLS, SHOWN, Unit

ASK = """
import sys
from roarbench.cli.main import main
sys.argv = ["roarbench"]
try:
    main()
finally:
    heavy = sorted({"torch", "numpy", "sqlalchemy"} & set(sys.modules))
    print(heavy, file=sys.stderr)
"""


def completed(line: str) -> list[str]:
    """What bash is told at the end of a line; nothing heavy may be imported for it."""
    words = line.split(" ")
    asked = {"_ROARBENCH_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", ASK], env={**os.environ, **asked}, capture_output=True, text=True, timeout=120
    )
    assert done.stderr.strip() == "[]"
    return done.stdout.split()


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("roarbench table --suite ", [*SUITES]),
        ("roarbench run --suite study-c", ["study-cifar10"]),
        ("roarbench claims --suite qu", ["quick", "quick-specific", "quick-class", "quick-exchanged"]),
        ("roarbench validity --against planted-s", ["planted-smooth"]),
        ("roarbench table --protocol ", [*SHOWN]),
        ("roarbench run --protocol ", [*PROTOCOLS]),
        ("roarbench plot --unit ", [*Unit]),
        ("roarbench table --estimators var-", [name for name in ESTIMATORS if name.startswith("var-")]),
        ("roarbench table --suite quick --estimators grad,var", ["grad,var-grad"]),
        ("roarbench plan --suite quick --estimators ", [*find_suite("quick").estimators]),
    ],
)
def test_names_are_completed(line: str, names: list[str]) -> None:
    assert completed(line) == names
