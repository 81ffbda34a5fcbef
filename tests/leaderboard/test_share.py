"""What others take from the board: figures, commands, a suite in one file, why they can trust it, and its demo."""

import io
import json
import re
from dataclasses import replace
from email.message import Message
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs
from xml.etree import ElementTree

import pytest
from PIL import Image

from leaderboard import page_text
from leaderboard.figure import draw_preview_card
from leaderboard.links import Address, Site, make_address
from leaderboard.page import submit_and_cite
from leaderboard.page.trust import TRUST, build_context
from leaderboard.pictures import Pictures, find_pictures_file, save_pictures
from leaderboard.render import load_templates
from leaderboard.report import render_report, write_report
from leaderboard.views import SuiteView, read_views
from roarbench.errors import CallerError
from roarbench.plan.suites import SUITES, VERSIONS, add_estimators
from roarbench.report.table_notes import describe_methods
from roarbench.store.results import DEFAULT_FILE, ResultsStore, find_default_url
from roarbench.store.submissions_and_annotations import keep_entry
from roarbench.store.transfer import export_results, import_results
from roarbench.submissions.file import check_source
from roarbench.text import format_interval
from studies import trust
from tests.helpers.board_store import make_store, views_of
from tests.helpers.older_suites import OLDER

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def view(views):
    return views["quick-v1"]


def test_the_picture_for_links_has_the_dots(view):
    """In the colours of rows that beat every control, and of those below one."""
    unjudged = tuple(replace(row, beating=None) for row in view.board.rows)
    for rows, colours in ((view.board.rows, {(0, 158, 115), (184, 73, 0)}), (unjudged, set())):
        made = draw_preview_card(
            replace(view.board, rows=rows), "A × headline that is as long as three lines of it, or four"
        )
        picture = Image.open(io.BytesIO(made))
        assert (picture.size, picture.format) == ((1200, 630), "PNG")
        seen = {colour for _, colour in picture.convert("RGB").getcolors()}
        assert seen & {(0, 158, 115), (184, 73, 0)} == colours


def test_the_figure_has_every_row_and_hostile_names_are_text(view):
    name = "<script>alert(1)</script>"
    text = load_templates().get_template("figure.svg").render(board=view.board, name=name, question="q")
    found = ElementTree.fromstring(text)
    marks = [len(list(found.iter(f"{SVG}{kind}"))) for kind in ("circle", "path")]
    controls = sum(row.control for row in view.board.rows)
    assert marks == [len(view.board.rows) - controls, controls]
    assert [part.get("class") for part in found.iter(f"{SVG}g")] == [row.kind for row in view.board.rows]
    assert ".open circle{fill:#fff}" in text  # hollow, as on the board
    assert not list(found.iter(f"{SVG}script")) and "<script>" in "".join(found.itertext())


def changes(suite):
    return submit_and_cite.list_changes(SimpleNamespace(results=SimpleNamespace(suite=suite)), {})


def test_what_changed_since_the_last_version_is_said():
    found = changes(OLDER["quick@2"])
    assert "Explained networks: 1 before, now 3." in found and changes(OLDER["quick@1"]) == []
    later = changes(replace(VERSIONS["quick", 6], entered=frozenset({"ig~untrained"})))  # not by the version
    (rows,) = (each for each in later if each.startswith("New rows: "))
    assert " grad~untrained, " in rows and " ig~untrained" not in rows
    starts = {"Recipe of the scored networks: quick@1 before, now quick@2": "", "New rows: ": "sobel-released"}
    for start, name in (starts | {"Removed rows: ": "grad-sq"}).items():
        assert any(each.startswith(start) and name in each for each in found)


@pytest.mark.parametrize("address", ["https://code.invalid/a", ""])
def test_submit_has_the_commands_of_the_readme_and_links_a_file(monkeypatch, address):
    """Also of an empty store, and where the package does not say the address of its source."""
    package = Message()
    package["Project-URL"] = "Homepage, https://x.invalid"
    if address:
        package["Project-URL"] = f"Repository, {address}/"
    monkeypatch.setattr(page_text, "metadata", lambda name: package)
    monkeypatch.setattr(submit_and_cite, "REPOSITORY", page_text._repository())
    fields, readme = (
        submit_and_cite.build_submit_context(Site({}), Address("submit")),
        (ROOT / "README.md").read_text("utf-8"),
    )
    assert not fields["example"] and [command in readme for command, _ in fields["commands"]] == [True] * 4 + [False]
    link, _, query = fields["pull"].partition("?")
    assert link == (f"{address}/new/main/submissions" if address else "")
    named = {"value": [submit_and_cite.TEMPLATE.read_text("utf-8")], "filename": ["my_estimator.py"]}
    assert parse_qs(query) == (named if address else {})


def test_a_report_has_the_gains_of_the_table_needs_nothing_else_and_says_how_it_was_done(view):
    html = render_report(view)
    text = " ".join(re.sub(r"<[^>]+>", " ", html).replace("\u2212", "-").split())
    placed = [row for row in view.table(view.leading).rows if row.place]
    for row in placed:
        assert f"{row.estimator} {format_interval(row.gain).replace(', ', ' to ').strip(']').replace('[', '')}" in text
    assert len(placed) == 9
    assert not re.findall(r'(?:src|href)="(?!data:)', html)
    assert "@inproceedings" in html or "@article" in html
    said = describe_methods(view.table(view.leading))
    assert "trained on 9,469 images of imagenette64" in said and "300 test images" in said and "t = 0.5, 0.9" in said
    assert "Fill of removed features: mean; levels" in said
    hostile = replace(view.results, named=("<script>alert(1)</script>",))
    assert "<script" not in render_report(SuiteView(hostile, view.folder, dict))


def test_the_command_writes_a_report_once_and_nothing_else(call, tmp_path):
    make_store(tmp_path, SUITES["planted"], images=20)
    asked = ("report", "--suite", "planted", "--store", tmp_path, "-o")
    path = tmp_path / "report.html"
    assert call(*asked, path).code == 0
    assert path.read_text("utf-8").lstrip().startswith("<!doctype html>")
    assert call(*asked, tmp_path / "report.txt").code == 2
    again = call(*asked, path)
    assert again.code == 2 and "report.html" in again.err


def test_the_methods_name_the_images_that_were_used_and_given_weights(view):
    table = view.table(view.leading)
    small = describe_methods(replace(table, suite_results=replace(view.results, limit=200)))
    assert "trained on 200 images of imagenette64 was explained" in small
    suite = replace(view.results.suite, given="torchvision:resnet18-v1@0123456789abcdef", references=1)
    given = describe_methods(replace(table, suite_results=replace(view.results, suite=suite)))
    assert "1 network (resnet-quick) with given weights (torchvision:resnet18-v1@01234567) was explained" in given
    assert "trained on" not in given


@pytest.mark.browser
def test_a_report_is_printed_as_pdf(view, tmp_path, require):
    require("chromium", "it prints a report as PDF: apt-get install chromium")
    write_report(view, tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_without_a_browser_a_pdf_is_refused(view, tmp_path, monkeypatch):
    monkeypatch.setattr("leaderboard.report.shutil.which", lambda name: None)
    with pytest.raises(CallerError, match="apt-get install chromium"):
        write_report(view, tmp_path / "report.pdf")
    assert list(tmp_path.iterdir()) == []


def test_trust_has_the_numbers_of_the_studies_each_with_its_command_and_what_the_store_lacks(views):
    """After a study's page changed: python -m studies.trust."""
    found = trust.trust()
    assert json.loads(TRUST.read_text("utf-8")) == found
    for finding in found["findings"]:
        page = ROOT / finding["page"]
        read = page.read_text("utf-8") + page.with_name("README.md").read_text("utf-8")
        assert finding["command"] in read and finding["number"][0].isdigit()
    fields = build_context(Site(views), make_address("trust"))
    absent = {suite["name"]: suite["runs"] for suite in fields["absent"]}
    assert set(absent) == set(SUITES) - {"quick", "planted"} and absent["imagenet-paper"] > 1000
    assert fields["corrections"][0] == found["corrections"][-1]  # the newest first


FILE = b'NAME = "mine"\nDESCRIPTION = "mine"\n\ndef estimate(model, images, targets, generator):\n    return images\n'


@pytest.mark.slow
def test_what_is_added_leaves_the_rest_as_it_was(tmp_path):
    """A shipped store of the first version, with pictures, and one of the second with a submission."""
    demo, store, mine = tmp_path / "demo", tmp_path / "store", check_source(FILE)
    make_store(demo, OLDER["quick@1"], images=20)
    make_store(store, add_estimators(OLDER["quick@2"], [mine.id]), images=20)
    with ResultsStore.open(find_default_url(store)) as worked_on, ResultsStore.open(find_default_url(demo)) as theirs:
        made = Pictures((7,), "By hand.", 0.5, ("map", "own"), 64, ("grad",), (), {"grad": 2.0}, str.encode)
        save_pictures(made, find_pictures_file(read_views(theirs, demo)["quick-v1"].results, demo))
        keep_entry(worked_on.database, mine)
        export_results(theirs, tmp_path / "first.parquet")
        import_results(worked_on, tmp_path / "first.parquet")  # where they are self-reported
    before = {path.name: path.read_bytes() for path in (demo / "pictures").iterdir()}
    import_module("make_demo").main(store, demo, add=True)
    with views_of(demo) as shipped:
        found = {slug: view.results for slug, view in shipped.items()}
    assert list(found) == ["quick-v2", "quick-v1"]
    assert all(suite_results.complete and not suite_results.doubts for suite_results in found.values())
    assert found["quick-v2"].submissions[mine.id].source == FILE
    assert {path.name: path.read_bytes() for path in (demo / "pictures").iterdir()} == before
    assert {path.name for path in demo.iterdir()} == {DEFAULT_FILE, "pictures"}
    assert (demo / DEFAULT_FILE).read_bytes()[18:20] == b"\1\1"  # a rollback journal


@pytest.mark.slow
def test_the_demo_is_run_here_from_committed_code_and_has_every_kind_of_doubt():
    folder = ROOT / "demo"
    with views_of(folder) as views:
        assert list(views) == ["quick-v7", "quick-v6", "quick-matched-v3"]
        both, first = views["quick-v7"], views["quick-v6"]
        assert both.paired and both.paired.headline and both.pictures and first.leading.name == "matched"
        for view in views.values():
            assert not view.results.doubts and not [run for run, (s, _) in view.states.items() if s == "missing"]
            assert not [r for r in view.results.results.values() if "dirty" in r.provenance.code_version]
        assert first.pictures and first.board.headline and first.board.roar_from
        shorts = {doubt.short for board in first.leading_boards for row in board.rows for doubt in row.doubts}
    assert any("prediction stability" in short for short in shorts) and any(short.startswith("<") for short in shorts)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 8_000_000
