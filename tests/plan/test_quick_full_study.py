"""The study of quick-full: its page describes the shipped rows."""

from roarbench.analysis.results_by_images_and_weights import collect_results
from roarbench.plan.protocols import LERF, MORF
from roarbench.plan.suites import find_suite
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.transfer import import_results
from studies.quick_full.run import SHOWN, make_runs_table
from tests.helpers.elsewhere import ROOT

PAGE = "studies/quick_full/README.md"


def test_study_page_counts_shipped_runs(tmp_path):
    page = (ROOT / PAGE).read_text("utf-8")
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        assert len(import_results(store, ROOT / "studies/quick_full/rows.parquet").new) == 1717
        counted = make_runs_table(collect_results(find_suite("quick-full"), store)).split("\n")
    shipped = [line for line in counted if not any(f"`{each.name}`" in line for each in (MORF, LERF))]
    assert len(shipped) == 2 + len(SHOWN) - 2 + 1  # plus two heading lines and mask-only, minus MoRF and LeRF
    assert all(line in page for line in shipped)
