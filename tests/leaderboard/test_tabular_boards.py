"""Boards of a table: pages and notes speak of its rows and columns, not of images and pixels."""

import re
from dataclasses import replace
from html import unescape

import pytest

from leaderboard.links import Site, make_address
from leaderboard.render import list_addresses, render_page
from leaderboard.suite_report import render_report
from roarbench.plan.protocols import PROTOCOLS, adapt_text_to_data
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from roarbench.report.combined_table import make_combined_table
from roarbench.report.notes_and_doubts import summarize_notes
from roarbench.report.suite_charts import make_chart
from tests.helpers.board_store import make_store, open_views
from tests.helpers.command_line import publish
from tests.helpers.made_up_results import render_words

PHOTOGRAPHIC = r"\b(images?|pixels?|contrast|blur|smooth map|an data|an column)\b"
ROWS = ("random", "grad", "var-grad")
NAMES = ("roar", "own-network", "matched", "mask-only", "morf")


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    """A suite of a table with ROAR, own-network gain and other protocols."""
    blocks = tuple(Block(PROTOCOLS[name], ROWS, (0.5, 0.9), seeds=2) for name in NAMES)
    tabular = replace(SUITES["breast-cancer"], name="tabular", blocks=blocks, references=3)
    folder = tmp_path_factory.mktemp("tabular")
    with pytest.MonkeyPatch.context() as patch:
        publish(patch, tabular)
        make_store(folder, tabular, images=40)
        with open_views(folder) as found:
            yield dict(found)


def test_pages_of_tabular_suite_speak_of_rows_and_columns(views):
    (view,) = views.values()
    known = list_addresses(views)
    boards = [make_address("board", view.slug, protocol=protocol.name) for protocol in view.protocols]
    estimators = [make_address("estimator", estimator=name) for name in ROWS]
    pages = [make_address("board", view.slug), make_address("compare", view.slug), *boards, *estimators]
    assert len(boards) >= len(NAMES) and set(pages) <= set(known)
    for address in pages:
        html = render_page(Site(views, known), address).html
        assert_speaks_of_rows_and_columns(html.partition("<main")[2].partition("<footer")[0], address)


def assert_speaks_of_rows_and_columns(html, source):
    text = unescape(re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", html, flags=re.DOTALL))
    assert re.search("data row|test row|columns", text), source
    found = [text[max(0, m.start() - 70) : m.end() + 40] for m in re.finditer(PHOTOGRAPHIC, text)]
    assert not found, source


def test_report_of_tabular_suite_speaks_of_rows_and_columns(views):
    (view,) = views.values()
    html = render_report(view)
    assert_speaks_of_rows_and_columns(html, "report")
    assert "285 data rows of breast-cancer" in html and "of 40 test rows are classified correctly" in html
    assert "noise 0.15: standard deviation of the noise in noisy copies, as a fraction of the data row" in html


def test_notes_of_tabular_suite_speak_of_rows(views):
    (view,) = views.values()
    for protocol in view.protocols:
        table = view.table(protocol)
        for words in (render_words(table), " ".join(summarize_notes(table)), make_chart(table).caption):
            assert not re.search(PHOTOGRAPHIC, words)
        assert " test rows" in render_words(table)
    combined = make_combined_table(view.results)
    assert not re.search(PHOTOGRAPHIC, " ".join((*combined.summarize_notes(), *combined.all_notes)))


def test_ids_stay_in_texts_of_tabular_suites():
    words = "grad~other-image, image-net@v1 and image@1f2e of an image: more than images, their pixels and its image."
    adapted = "grad~other-image, image-net@v1 and image@1f2e of a data row: more than data rows, their columns and its "
    assert adapt_text_to_data(words, tabular=True) == f"{adapted}data row."
