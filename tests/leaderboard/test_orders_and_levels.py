"""Pages say which features are removed first, and at which levels, where other orders or levels could be meant."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from leaderboard.board_contents import BEATS, BELOW, OPEN
from leaderboard.links import Site, make_address
from leaderboard.page.board import _explain_colours_of_all_gains
from leaderboard.render import list_addresses, render_page
from leaderboard.suite_view import sort_for_display
from roarbench.plan.protocols import KAR, OWN_NETWORK, OWN_NETWORK_LERF, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from roarbench.report.table_notes import summarize_notes
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
    assert order.removesuffix(" first") in board.caption
    if protocol.scores_all_network_pairs:
        assert f"({order.removesuffix(' first')} features removed first)." in board.headline
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
    assert f"ROAR gain: 10, 50 and 90 % removed, {MOST}; Own-network gain: 10, 50 and 90 % removed, {MOST}." in page


def test_estimator_page_names_levels_and_leads_with_larger_suite(views):
    assert [view.slug for view in sort_for_display(views.values())] == ["many-v8", "few-v8"]
    page = render(views, "estimator", estimator="grad")
    assert page.count(f"|ROAR gain (10, 50 and 90 % removed, {MOST}): ") == 1 and "(many v8).|" in page
    for text in ("ROAR, 10, 50 and 90 % removed", "ROAR, 90 % removed", "Own-network gain, 90 % removed"):
        assert page.count(f"|{text}|") == 1, text
    assert f"|many v8, ROAR, 10, 50 and 90 % removed, {MOST}: its gain minus each control’s, in points" in page


def test_row_below_control_but_better_than_random_has_both_verdicts(views):
    """The board of ROAR compares rows with every control, and that of all gains compares them with Random alone."""
    view = views["many-v8"]
    board = view.get_board(ROAR)
    paired = {name: answer.verdict_text for name, answer in view.combined_board.questions[0].answers.items()}
    rows = {row.id: row for row in board.rows if not row.control}
    for name, row in rows.items():
        assert row.random_verdict_text.startswith(paired[name]), "the board of all gains has the same verdict"
        page = render(views, "estimator", estimator=name)
        assert f"|{row.random_verdict_text}|" in page and "and second lines with Random alone." in page
    assert "second lines" not in render(views, "estimator", estimator="random-blurred"), "a control has none"
    assert not any(row.random_verdict_text for row in view.get_board(KAR).rows)
    for kind, verdict, explained in (
        (BELOW, "better than Random", True),
        (OPEN, "better than Random", True),
        (BEATS, "better than Random", False),
        (BELOW, "worse than Random", False),
    ):
        row = SimpleNamespace(colour_class=kind, random_verdict_text=verdict)
        assert bool(list(_explain_colours_of_all_gains(view, SimpleNamespace(rows=[row])))) is explained
