"""A table has the same digits on every processor: its numbers are sums in a fixed order, or of whole numbers."""

import pytest

from tests.helpers.processes import run_python

PROGRAM = """
import sys
import roarbench as rb
from roarbench.analysis.suite_judges import judge_suite
from roarbench.report.combined_table import present
from roarbench.report.table import make_table
from roarbench.report.table_renderers import render
stored = rb.load_published_results(sys.argv[1]).stored
for protocol in stored.list_started_protocols():
    table = make_table(stored, protocol, stored.suite.estimators_with_own_row)
    print(render(present(table), "json"))
"""
# kernels of OpenBLAS for other processors, with their own order of sums; the first also without vector instructions in
# NumPy and in the C library
PROCESSORS = {
    "one without AVX": {
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 X86_V3",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4",
    },
    "two cores with AVX2": {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "2"},
}


@pytest.mark.process
def test_published_tables_have_the_same_digits_on_other_processors():
    here = run_python(PROGRAM, "benchmark-digits", OPENBLAS_CORETYPE="", NPY_DISABLE_CPU_FEATURES="")
    assert here.count('"rows"') == 9 and '"gain"' in here
    for processor, settings in PROCESSORS.items():
        assert run_python(PROGRAM, "benchmark-digits", **settings) == here, processor
