"""What others take from the board: a figure, a picture for links, a citation, commands, a pull request."""

import io
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
from leaderboard.page import cite, submit
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

ROWS = {"augmented": False, "roar": True, "specific": True, "matched": True}  # by protocol: whether there are any
README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def board() -> BoardRecord:
    evidence = Evidence.of(held(), Bootstrap(200))
    table = table_of(evidence, ROAR, evidence.suite_results.suite.placed, Unit.SCALAR, ())
    assert table is not None
    return board_record(evidence, table)


def test_the_picture_for_links_has_the_dots(board: BoardRecord) -> None:
    picture = Image.open(io.BytesIO(card(board, "A × headline that is as long as three lines of it, or four")))
    assert (picture.size, picture.format) == ((1200, 630), "PNG")
    assert len(picture.convert("RGB").getcolors()) > 3


def svg(board: BoardRecord, name: str = "n") -> ElementTree.Element:
    return ElementTree.fromstring(templates().get_template("figure.svg").render(board=board, name=name, question="q"))


def test_the_figure_has_every_row_and_hostile_names_are_text(board: BoardRecord) -> None:
    name = "{http://www.w3.org/2000/svg}"
    found = svg(board)
    assert len(found.findall(f"{name}g")) == len(board.rows)
    marks = [len(list(found.iter(f"{name}{kind}"))) for kind in ("circle", "path")]
    assert marks == [sum(not row.control for row in board.rows), sum(row.control for row in board.rows)]
    hostile = svg(board, name="<script>alert(1)</script>")
    assert not list(hostile.iter(f"{name}script")) and "<script>" in "".join(hostile.itertext())


def test_what_changed_since_the_last_version_is_said() -> None:
    view = SimpleNamespace(results=SimpleNamespace(suite=VERSIONS["quick", 2]))
    found = cite.changes(view, {})
    assert "Explained networks: 1 before, now 3." in found
    assert any(each.startswith("Recipe of the scored networks: quick@1 before, now quick@2") for each in found)
    assert any(each.startswith("New rows: ") and "sobel-released" in each for each in found)
    assert any(each.startswith("No longer there: ") and "grad-sq" in each for each in found)
    first = SimpleNamespace(results=SimpleNamespace(suite=VERSIONS["quick", 1]))
    assert cite.changes(first, {}) == []


def test_the_commands_are_those_of_the_readme() -> None:
    for command, _ in submit.COMMANDS[:4]:
        assert command.format("quick-matched") in README
    fields = submit.context(SimpleNamespace(views={}))  # of an empty store
    assert not fields["example"] and len(fields["commands"]) == 5


def test_the_link_of_a_pull_request_holds_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "REPOSITORY", "https://code.invalid/roarbench")
    link = urlsplit(submit.context(SimpleNamespace(views={}))["pull"])
    assert link[:3] == ("https", "code.invalid", "/roarbench/new/main/submissions")
    assert parse_qs(link.query) == {"value": [submit.TEMPLATE.read_text("utf-8")], "filename": ["my_estimator.py"]}


def test_a_source_without_an_address_has_no_link_of_a_pull_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "REPOSITORY", "")
    assert submit.context(SimpleNamespace(views={}))["pull"] == ""


@pytest.mark.parametrize(
    ("lines", "address"),
    [
        (["Homepage, https://x.invalid", "Repository, https://code.invalid/a/"], "https://code.invalid/a"),
        (["Homepage, https://x.invalid"], ""),
        ([], ""),
    ],
)
def test_the_address_of_the_source_is_that_of_the_metadata(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], address: str
) -> None:
    package = Message()
    for line in lines:
        package["Project-URL"] = line
    monkeypatch.setattr(words, "metadata", lambda name: package)
    assert words._repository() == address


def test_the_suite_of_what_only_a_network_can_know_is_the_first_page() -> None:
    suites = {name: SimpleNamespace(has_rows=rows, leading=SHOWN[name]) for name, rows in ROWS.items()}
    assert sorted(suites, key=lambda name: shown_first(suites[name])) == ["matched", "roar", "specific", "augmented"]
