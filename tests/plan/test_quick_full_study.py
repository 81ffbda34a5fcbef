"""The study of quick-full: the rows that it ships are those of its page."""

from roarbench.analysis.results_by_images_and_weights import collect_results
from roarbench.plan.protocols import LERF, MORF
from roarbench.plan.suites import find_suite
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.transfer import import_results
from studies.quick_full.run import SHOWN, make_runs_table
from tests.helpers.elsewhere import ROOT

PAGE = "studies/quick_full/README.md"


def test_the_page_counts_the_runs_that_it_ships(tmp_path):
    page = (ROOT / PAGE).read_text("utf-8")
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        assert len(import_results(store, ROOT / "studies/quick_full/rows.parquet").new) == 1717
        counted = make_runs_table(collect_results(find_suite("quick-full"), store)).split("\n")
    shipped = [line for line in counted if not any(f"`{each.name}`" in line for each in (MORF, LERF))]
    assert len(shipped) == 2 + len(SHOWN) - 2 + 1  # a heading of two lines; without two protocols, with masks alone
    assert all(line in page for line in shipped)
