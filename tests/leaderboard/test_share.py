"""What others take from the board: a figure, a picture for links, a citation, commands, a pull request."""

import io
from dataclasses import replace
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest
from PIL import Image

from leaderboard import words
from leaderboard.card import card
from leaderboard.judged import board_record
from leaderboard.links import Address, Site
from leaderboard.page import share
from leaderboard.records import BoardRecord
from leaderboard.render import templates
from leaderboard.source import shown_first
from roarbench.analysis.evidence import Evidence
from roarbench.plan.suites import VERSIONS
from roarbench.protocols import SHOWN
from roarbench.protocols.roar import ROAR
from roarbench.report.table import table_of
from roarbench.stats.bootstrap import Bootstrap
from roarbench.terms import Unit
from tests.helpers.made_up import held

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def board() -> BoardRecord:
    evidence = Evidence.of(held(), Bootstrap(200))
    table = table_of(evidence, ROAR, evidence.suite_results.suite.placed, Unit.SCALAR, ())
    assert table is not None
    return board_record(evidence, table)


def test_the_picture_for_links_has_the_dots(board: BoardRecord) -> None:
    picture = Image.open(io.BytesIO(card(board, "A × headline that is as long as three lines of it, or four")))
    assert (picture.size, picture.format) == ((1200, 630), "PNG")
    colours = {colour for _, colour in picture.convert("RGB").getcolors()}
    unjudged = tuple(replace(row, beating=None) for row in board.rows)
    plain = Image.open(io.BytesIO(card(replace(board, rows=unjudged), "nothing is judged"))).convert("RGB")
    assert len(colours) > 3 and {(0, 158, 115), (184, 73, 0)}.isdisjoint(colour for _, colour in plain.getcolors())


def test_the_figure_has_every_row_and_hostile_names_are_text(board: BoardRecord) -> None:
    text = templates().get_template("figure.svg").render(board=board, name="<script>alert(1)</script>", question="q")
    found = ElementTree.fromstring(text)
    marks = [len(list(found.iter(f"{SVG}{kind}"))) for kind in ("g", "circle", "path")]
    controls = sum(row.control for row in board.rows)
    assert marks == [len(board.rows), len(board.rows) - controls, controls]
    assert not list(found.iter(f"{SVG}script")) and "<script>" in "".join(found.itertext())


def test_what_changed_since_the_last_version_is_said() -> None:
    first, second = (SimpleNamespace(results=SimpleNamespace(suite=VERSIONS["quick", version])) for version in (1, 2))
    found = share.changes(second, {})
    assert "Explained networks: 1 before, now 3." in found and share.changes(first, {}) == []
    joined = replace(VERSIONS["quick", 4], entered=frozenset({"ig~untrained"}))  # by somebody, not by the version
    (rows,) = share.changes(SimpleNamespace(results=SimpleNamespace(suite=joined)), {})
    assert rows.startswith("New rows: grad~untrained, ") and "ig~untrained" not in rows
    starts = {"Recipe of the scored networks: quick@1 before, now quick@2": "", "New rows: ": "sobel-released"}
    for start, name in (starts | {"No longer there: ": "grad-sq"}).items():
        assert any(each.startswith(start) and name in each for each in found)


@pytest.mark.parametrize("address", ["https://code.invalid/a", ""])
def test_submit_has_the_commands_of_the_readme_and_links_a_file(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Also of an empty store, and where the package does not say the address of its source."""
    package = Message()
    package["Project-URL"] = "Homepage, https://x.invalid"
    if address:
        package["Project-URL"] = f"Repository, {address}/"
    monkeypatch.setattr(words, "metadata", lambda name: package)
    monkeypatch.setattr(share, "REPOSITORY", words._repository())
    fields = share.submit(Site({}), Address("submit"))
    assert not fields["example"] and [command in README for command, _ in fields["commands"]] == [True] * 4 + [False]
    link = urlsplit(fields["pull"])
    assert f"{link.scheme}://{link.netloc}{link.path}" == (f"{address}/new/main/submissions" if address else "://")
    named = {"value": [share.TEMPLATE.read_text("utf-8")], "filename": ["my_estimator.py"]}
    assert parse_qs(link.query) == (named if address else {})


def test_the_suite_of_what_only_a_network_can_know_is_the_first_page() -> None:
    rows = {"augmented": False, "roar": True, "specific": True, "matched": True}  # by protocol: whether there are any
    suites = {name: SimpleNamespace(has_rows=any_, leading=SHOWN[name]) for name, any_ in rows.items()}
    assert sorted(suites, key=lambda name: shown_first(suites[name])) == ["matched", "roar", "specific", "augmented"]
