"""The note on searches beside own-network gains."""

from types import SimpleNamespace

from roarbench.report import doubts
from roarbench.report.table_notes import describe_search
from roarbench.stats.own_network_gain import BESIDE_SEARCH, OwnNetworkTest, OwnNetworkVerdict, SearchComparison


def make_row(name, long_enough):
    test = OwnNetworkTest(OwnNetworkVerdict.SEARCHED, None, SearchComparison("search", None, long_enough))
    return SimpleNamespace(estimator=name, network=test)


def test_row_of_unknown_passes_is_not_called_longer_than_each_search():
    """The published passes of a submission are unknown: it may take two, and a search of 128 be long enough."""
    passes = {"grad": (1.0, 1.0), "sg-ig": (375.0, 375.0), "mine@0123abcd": None}
    rows = [make_row(name, name == "grad") for name in passes]
    names = {name: name.partition("@")[0] for name in passes}
    table = SimpleNamespace(rows=rows, display_names=names, suite_results=SimpleNamespace(find_passes=passes.get))
    longer, unknown = "No search has as many passes as sg-ig.", "compared with the longest search: mine."
    assert describe_search(table) == f"{BESIDE_SEARCH} {longer} Rows of unknown passes are {unknown}"
    found = [(doubt.row, doubt.short, doubt.sentence) for doubt in doubts._find_unknown_passes(table)]
    sentence = "The number of its passes is not known, so it is compared with the longest search, search."
    assert found == [("mine@0123abcd", "passes unknown", sentence)]
    table.rows = rows[::2]
    assert describe_search(table) == f"{BESIDE_SEARCH} Rows of unknown passes are {unknown}"
    table.rows = rows[:1]
    assert describe_search(table) == BESIDE_SEARCH
