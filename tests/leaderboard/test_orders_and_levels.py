"""Pages say which features are removed first, and at which levels, where other orders or levels could be meant."""

import re
from dataclasses import replace

import pytest

from leaderboard.board_contents import BEATS, BELOW, CONTROL, KINDS, OPEN, RANDOM_KINDS
from leaderboard.links import Site, make_address
from leaderboard.page.board import write_caption
from leaderboard.render import list_addresses, render_page
from leaderboard.suite_view import sort_for_display
from roarbench.plan.protocols import KAR, OWN_NETWORK, OWN_NETWORK_LERF, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from roarbench.report.table_notes import summarize_notes
from roarbench.stats.verdicts import Verdict
from tests.helpers.board_store import make_store, open_views
from tests.helpers.command_line import publish

MOST, LEAST = "most important first", "least important first"
ROWS = ("random", "random-blurred", "grad", "sgsq-grad", "ig")
PROTOCOLS = (ROAR, OWN_NETWORK, KAR, OWN_NETWORK_LERF)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A suite with both orders, and a smaller suite on the same images with another level."""
    folder = tmp_path_factory.mktemp("orders")
    with pytest.MonkeyPatch.context() as patch:
        for name, rows, levels in (("few", ROWS[:3], (0.9,)), ("many", ROWS, (0.1, 0.5, 0.9))):
            blocks = tuple(Block(protocol, rows, levels, 2) for protocol in PROTOCOLS)
            publish(patch, suite := replace(SUITES["quick"], name=name, blocks=blocks))
            make_store(folder, suite, images=60)
        yield folder


@pytest.fixture(scope="module")
def views(folder):
    with open_views(folder) as found:
        yield dict(found)


def render(views, *at, **choices):
    """Return the text of a page between its tags, with plain spaces before percent signs."""
    page = render_page(Site(views, list_addresses(views)), make_address(*at, **choices)).html
    return re.sub("<[^>]+>", "|", page).replace("\N{NARROW NO-BREAK SPACE}%", " %")


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_board_headline_facts_and_caption_name_order(views, protocol):
    board = views["many-v8"].get_board(protocol)
    order = LEAST if protocol in (KAR, OWN_NETWORK_LERF) else MOST
    name = protocol.gain_name[0].upper() + protocol.gain_name[1:]
    assert board.facts[0] == f"{name}, 10, 50 and 90 % removed, {order}"
    assert order.removesuffix(" first") in write_caption(views["many-v8"].table(protocol))
    if protocol.scores_all_network_pairs:
        assert f" ({'LeRF' if order == LEAST else 'MoRF'})." in board.headline
    else:
        assert board.headline.startswith(f"Under {protocol.title}, ")
    page = render(views, "board", "many-v8", protocol=protocol.name)
    assert board.facts[0] in page and f"|{board.headline}|" in page


def test_text_table_names_order(views):
    tables = [views["many-v8"].table(protocol) for protocol in (OWN_NETWORK, OWN_NETWORK_LERF)]
    assert [summarize_notes(table)[0] for table in tables] == [
        "Gain: predictions changed by own map minus by others, most important removed.",
        "Gain: predictions kept by own map minus by others, least important removed.",
    ]


def test_columns_and_legends_name_levels_and_order(views):
    page, overview = render(views, "board", "many-v8"), render(views, "suites")
    legends = "ROAR gain", "Own-network gain (MoRF)"
    assert all(f"|{legend}|" in text for text in (page, overview) for legend in legends)
    for asks in ("Do the pixels matter in the data?", "Does the map explain this network?"):
        assert f"|{asks} 10, 50 and 90 % removed, {MOST}|" in page
    assert overview.count("gain| |10, 50 and 90 % removed|") == 2, "a column of ROAR and one of own-network gain"


def test_estimator_page_names_levels_and_leads_with_larger_suite(views):
    assert [view.slug for view in sort_for_display(views.values())] == ["many-v8", "few-v8"]
    page = render(views, "estimator", estimator="grad")
    for text in ("ROAR gain, 10, 50 and 90 % removed", "ROAR gain, 90 % removed"):
        assert page.count(f"|{text}|") == 1, text
    assert page.count("|Own-network gain (MoRF), 90 % removed|") == 1
    assert f"|many v8, ROAR, 10, 50 and 90 % removed, {MOST}: its gain minus each control’s, in points" in page


def test_roar_verdicts_and_colours_are_the_same_on_all_pages(views):
    """They compare a row with Random alone; KAR's compare it with every control. Captions name the comparison."""
    view = views["many-v8"]
    alone, beside, kar = view.get_board(ROAR), view.combined_board.boards[0], view.get_board(KAR)
    table = {row.estimator: row for row in view.table(ROAR).rows}
    for row in alone.rows:
        other = beside.rows_by_id[row.id]
        assert (row.colour_class, row.verdict_text, row.value) == (other.colour_class, other.verdict_text, other.value)
        if row.id != "random":
            kind = {Verdict.BETTER: BEATS, Verdict.SAME: OPEN, Verdict.WORSE: BELOW}[table[row.id].vs_random.verdict]
            assert row.verdict_text == RANDOM_KINDS[kind]
            assert row.colour_class == (CONTROL if row.control else kind)
    for row in kar.rows:
        assert row.verdict_text == KINDS[row.colour_class]
        assert (row.colour_class == BEATS) == (row.beating is not None and row.beating.beats_all)
    assert "Under ROAR, colours and verdicts compare a row with Random alone." in render(
        views, "estimator", estimator="grad"
    )
