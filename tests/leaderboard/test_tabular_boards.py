"""Boards of a table say that its rows are called images, and its columns pixels."""

from dataclasses import replace
from html import unescape

import pytest

from leaderboard.links import Site, make_address
from leaderboard.render import list_addresses, render_page
from leaderboard.suite_report import render_report
from roarbench.common.text import TABLE_WORDS
from roarbench.plan.protocols import PROTOCOLS
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from roarbench.report.descriptions_and_repeat_commands import format_suite
from tests.helpers.board_store import make_store, open_views
from tests.helpers.command_line import publish
from tests.helpers.made_up_results import render_words

ROWS = ("random", "grad", "var-grad")
NAMES = ("roar", "own-network", "matched", "mask-only", "morf")


@pytest.fixture(scope="module")
def view(tmp_path_factory):
    """A suite of a table with ROAR, own-network gain and other protocols."""
    blocks = tuple(Block(PROTOCOLS[name], ROWS, (0.5, 0.9), seeds=2) for name in NAMES)
    tabular = replace(SUITES["breast-cancer"], name="tabular", blocks=blocks, references=3)
    folder = tmp_path_factory.mktemp("tabular")
    with pytest.MonkeyPatch.context() as patch:
        publish(patch, tabular)
        make_store(folder, tabular, images=40)
        with open_views(folder) as found:
            (view,) = dict(found).values()
            yield view


def test_boards_and_report_of_table_explain_their_words(view):
    views = {view.slug: view}
    known = list_addresses(views)
    assert len(view.protocols) >= len(NAMES)
    for protocol in view.protocols:
        address = make_address("board", view.slug, protocol=protocol.name)
        assert TABLE_WORDS in unescape(render_page(Site(views, known), address).html), address
    assert TABLE_WORDS in unescape(render_report(view))


def test_titles_of_table_explain_their_words(view):
    for protocol in view.protocols:
        assert TABLE_WORDS in " ".join(render_words(view.table(protocol)).split())
    assert TABLE_WORDS in format_suite(view.results.suite, 300)
    assert TABLE_WORDS not in format_suite(SUITES["quick"], 300)
