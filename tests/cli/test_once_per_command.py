"""A command reads each stored run once, and computes each protocol's gains and each covariance of its rows once."""

from collections import Counter
from dataclasses import replace

import pytest

from roarbench.analysis import correctness_of_suite, suite_judges
from roarbench.api.evaluated_rows import EvaluatedRows
from roarbench.common.enums import Unit
from roarbench.plan.protocols import KAR, MASK_ONLY, OWN_NETWORK, ROAR
from roarbench.plan.settings import Settings
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from roarbench.store.results import ResultsStore
from tests.helpers.board_store import make_store
from tests.helpers.command_line import command, publish

ROWS, LEVELS = ("random", "sobel", "random-blurred", "grad", "var-grad"), (0.5, 0.9)
BLOCKS = tuple(Block(each, ROWS, LEVELS, 2) for each in (ROAR, OWN_NETWORK, KAR, MASK_ONLY))
SUITE = replace(SUITES["quick"], name="both", blocks=(*BLOCKS, replace(BLOCKS[0], unit=Unit.PIXEL)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patch:
        publish(patch, SUITE)
        make_store(folder, SUITE, images=40)
        yield folder


@pytest.fixture
def work(monkeypatch):
    """Count what is done: a run's results read, a protocol judged, and the covariance of a protocol's rows."""
    counts = Counter()

    def count(owner, name, list_work):
        do = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given: counts.update(list_work(*given)) or do(*given))

    count(ResultsStore, "read_results", lambda store, keys, *_: [("read", key) for key in keys])
    count(suite_judges, "collect_correctness", lambda results, *what: [("judge", *what)])
    count(correctness_of_suite, "select_variance_components", lambda protocol, *_: [("covariance", protocol)])
    return counts


def list_kinds(work):
    assert {*work.values()} == {1}, [done for done, times in work.items() if times > 1]
    return {kind for kind, *_ in work}


@pytest.mark.parametrize(
    "words",
    [
        ("table",),
        ("table", "--protocol", "roar", "--format", "json"),
        ("diagnose",),
        ("claims",),
        ("report", "-o", "report.html"),
    ],
    ids=" ".join,
)
def test_command_reads_and_judges_once(folder, work, monkeypatch, tmp_path, words, capsys):
    monkeypatch.chdir(tmp_path)
    assert command(*words, "--suite", SUITE.name, "--store", folder) == 0, capsys.readouterr().err
    assert list_kinds(work) == {"read", "judge", "covariance"}


def test_result_in_python_is_read_and_judged_once(folder, work):
    """A combined table, its text in a notebook and its data frame are of one suite's judgements."""
    found = EvaluatedRows.read(SUITE, Settings(folder))
    for _ in range(2):
        assert repr(found) and found._repr_html_() and found.notes() and len(found.to_dataframe()) == len(ROWS)
    assert list_kinds(work) == {"read", "judge", "covariance"}
