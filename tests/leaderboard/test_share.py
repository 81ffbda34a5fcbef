"""Exports of the board: figures, commands, single-file reports, the trust page and the demo."""

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

from leaderboard import suite_report, text_helpers
from leaderboard.links import Address, Site, make_address
from leaderboard.page import about, overview
from leaderboard.page.about import TRUST, build_trust_context
from leaderboard.pictures import Pictures
from leaderboard.render import list_addresses, load_templates, render_page
from leaderboard.suite_report import describe_methods, render_report, write_report
from leaderboard.suite_view import SuiteView
from roarbench.common.errors import CallerError
from roarbench.common.text import format_interval
from roarbench.plan.suite import CustomSuite
from roarbench.plan.suites import SUITES
from roarbench.store.published_folder import read_index_and_check_folder
from roarbench.store.results import DEFAULT_FILE
from studies import trust
from tests.helpers.board_store import make_store, open_views
from tests.helpers.older_suites import OLDER
from tests.helpers.processes import ROOT

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def view(views):
    return views["quick-v1"]


def test_svg_figure_has_every_row_and_escapes_names(view):
    name = "<script>alert(1)</script>"
    text = load_templates().get_template("figure.svg").render(board=view.board, name=name, question="q")
    found = ElementTree.fromstring(text)
    paths = [path.get("d").rpartition("l")[2] for path in found.iter(f"{SVG}path")]
    kinds = [row.colour_class for row in view.board.rows]
    assert (paths.count("5 5-5 5-5-5z"), paths.count("-5-9h10z")) == (kinds.count("control"), kinds.count("below"))
    assert len(list(found.iter(f"{SVG}circle"))) == len(kinds) - len(paths), "diamonds, triangles and circles"
    assert [part.get("class") for part in found.iter(f"{SVG}g")] == [row.colour_class for row in view.board.rows]
    assert ".open circle{fill:#fff}" in text  # hollow, as on the board
    assert not list(found.iter(f"{SVG}script")) and "<script>" in "".join(found.itertext())


def test_papers_are_linked_only_to_arxiv():
    paper = load_templates().get_template("pictures_and_sources.html").module.paper
    link = '<a href="https://arxiv.org/abs/1706.03825">arXiv:1706.03825</a>'
    assert str(paper("A. Author: A. 2017, arXiv:1706.03825")) == f"A. Author: A. 2017, {link}"
    assert str(paper("https://arxiv.org/abs/1706.03825")) == link  # as a submission names its paper
    for text in ("https://arxiv.org/abs/", "https://example.invalid/1706.03825", "A. Author: A. 2017"):
        assert str(paper(text)) == text


@pytest.mark.parametrize("address", ["https://code.invalid/a", ""])
def test_submit_page_has_readme_commands_and_link_to_new_file(monkeypatch, address):
    """The store is empty, and the package may lack the address of its source."""
    package = Message()
    package["Project-URL"] = "Homepage, https://x.invalid"
    if address:
        package["Project-URL"] = f"Repository, {address}/"
    monkeypatch.setattr(text_helpers, "metadata", lambda name: package)
    monkeypatch.setattr(about, "REPOSITORY", text_helpers._read_repository_url())
    fields = about.build_submit_context(Site({}), Address("submit"))
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [command in readme for command, _ in fields["commands"]] == [True] * 4 + [False]
    link, _, query = fields["pull"].partition("?")
    assert link == (f"{address}/new/main/submissions" if address else "")
    named = {"value": [about.TEMPLATE.read_text("utf-8")], "filename": ["my_estimator.py"]}
    assert parse_qs(query) == (named if address else {})
    results = SimpleNamespace(suite=replace(SUITES["quick"], own=CustomSuite((), 1)))
    own = about.build_submit_context(Site({"mine": SimpleNamespace(results=results)}), Address("submit"))
    assert all(" --suite SUITE.toml" in command for command, _ in own["commands"][2:])


def test_report_has_gains_of_table_and_methods_without_external_files(view):
    html = render_report(view)
    text = " ".join(re.sub(r"<[^>]+>", " ", html).replace("\u2212", "-").split())
    placed = [row for row in view.table(view.headline_protocol).rows if row.place]
    for row in placed:
        if row.estimator == "random":  # by definition, its gain is 0 without an interval
            assert "random 0.0 " in text and "random 0.0 0.0 to" not in text
            continue
        assert f"{row.estimator} {format_interval(row.gain).replace(', ', ' to ').strip(']').replace('[', '')}" in text
    assert len(placed) == 9
    assert text.count("worse than Random") == text.count("better than Random") == 1, "a legend names the colours"
    assert not re.findall(r'(?:src|href)="(?!data:)', html)
    assert "@inproceedings" in html or "@article" in html
    said = describe_methods(view.table(view.headline_protocol))
    assert "trained on 9,469 images of imagenette64" in said and "300 test images" in said
    assert said.count("fill mean") == said.count("0.5, 0.9") == 1, "each setting is named once"
    hostile = replace(view.results, title_parts=("<script>alert(1)</script>",))
    assert "<script" not in render_report(SuiteView(hostile, view.folder))


def test_report_command_writes_file_and_refuses_to_overwrite(call, tmp_path):
    make_store(tmp_path, SUITES["planted"], images=20)
    asked = ("report", "--suite", "planted", "--store", tmp_path, "-o")
    path = tmp_path / "report.html"
    assert call(*asked, path).code == 0
    assert path.read_text("utf-8").lstrip().startswith("<!doctype html>")
    assert call(*asked, tmp_path / "report.txt").code == 2
    again = call(*asked, path)
    assert again.code == 2 and "report.html" in again.err


def test_describe_methods_names_used_images_and_pretrained_weights(view):
    table = view.table(view.headline_protocol)
    small = describe_methods(replace(table, suite_results=replace(view.results, limit=200)))
    assert "trained on 200 images of imagenette64 was explained" in small
    suite = replace(view.results.suite, given="torchvision:resnet18-v1@0123456789abcdef", references=1)
    given = describe_methods(replace(table, suite_results=replace(view.results, suite=suite)))
    assert "1 network (resnet-quick) with given weights (torchvision:resnet18-v1@01234567) was explained" in given
    assert "trained on" not in given


@pytest.mark.browser
def test_write_report_prints_pdf(view, tmp_path, require):
    require("chromium", "it prints a report as PDF: apt-get install chromium")
    write_report(view, tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.browser
def test_pdf_on_full_disk_is_an_error(require):
    """Chromium succeeds, and leaves an empty file."""
    require("chromium", "it prints a report as PDF: apt-get install chromium")
    with pytest.raises(OSError, match="No space left on device"):
        suite_report._print_pdf("<p>text", Path("/dev/full"))


def test_write_report_rejects_pdf_without_chromium(view, tmp_path, monkeypatch):
    monkeypatch.setattr("leaderboard.suite_report.shutil.which", lambda name: None)
    with pytest.raises(CallerError, match="apt-get install chromium"):
        write_report(view, tmp_path / "report.pdf")
    assert list(tmp_path.iterdir()) == []


def test_trust_record_equals_numbers_of_studies(views):
    """After a study's page changes, update the record with python -m studies.trust."""
    found = trust.make_trust_record()
    assert json.loads(TRUST.read_text("utf-8")) == found
    for finding in found["findings"]:
        page, (*checkout, call) = (ROOT / finding["page"]).read_text("utf-8"), finding["command"].split("; ")
        assert checkout == [f"git checkout {trust.COMMIT}"] and trust.COMMIT in page or f"`{call}`" in page
        program = ROOT / call.split()[2].replace(".", "/")
        assert checkout or program.with_suffix(".py").is_file() or (program / "__main__.py").is_file()
        assert finding["number"][0].isdigit()
    fields = build_trust_context(Site(views), make_address("trust"))
    absent = {suite["name"]: suite["runs"] for suite in fields["absent"]}
    assert set(absent) == set(SUITES) - {"quick", "planted"} and absent["imagenet-noretrain"] == 201
    assert fields["corrections"][0] == found["corrections"][-1]  # the newest first


def test_write_pictures_saves_suites_with_images_for_demo(tmp_path, monkeypatch, capsys):
    """Only suites with images and rankings have pictures."""
    store, shown = tmp_path / "store", Pictures((7,), "By hand.", 0.5, ("map",), 64, ("grad",), (), str.encode)
    make_store(store, OLDER["quick@1"], images=20)
    make_store(store, OLDER["quick@2"], images=20)
    monkeypatch.setattr(SuiteView, "pictures", property(lambda view: shown if view.slug == "quick-v2" else None))
    import_module("make_demo").write_pictures(store, tmp_path / "demo")
    assert len(list((tmp_path / "demo" / "pictures").iterdir())) == 1
    told = capsys.readouterr().out.splitlines()
    assert ["no pictures" in line for line in told] == ["quick v2" not in line for line in told] == [False, True]


def test_overview_drops_suite_only_if_other_suite_has_all_its_runs():
    """Runs of other explained networks are no repetition."""

    def view(paired, *runs):
        results = {number: SimpleNamespace(run=run) for number, run in enumerate(runs)}
        return SimpleNamespace(combined_board=paired, results=SimpleNamespace(results=results))

    small, large, other = view(None, "a", "b"), view("both", "a", "b", "c"), view("both", "A", "B", "C")
    for beside, shown in (([large], []), ([other], [small]), ([view(None, "a", "b", "c")], [small])):
        small.suites_on_same_images_and_network = beside
        assert list(overview._drop_repeated_suites([small])) == shown


@pytest.mark.slow
def test_demo_has_every_published_suite_and_expected_doubts(tmp_path, monkeypatch):
    files = read_index_and_check_folder(ROOT / "results")
    make_demo = import_module("make_demo")
    # replications, two fifths of the rows, are on no board
    monkeypatch.setattr(
        make_demo, "read_index_and_check_folder", lambda _: [f for f in files if not f.first_replication]
    )
    make_demo.write_demo(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {DEFAULT_FILE, "pictures"}  # no log of writes
    with open_views(tmp_path) as views:
        published = {file.versioned_suite for file in files}
        shown = {view.results.suite.versioned for view in views.values()}
        # five of the benchmark's rows; other suites have all results of the older quick
        assert shown == published - {"quick@7"} | {"quick-roar@1"}
        site = Site(views, list_addresses(views))
        tables = overview.build_overview_context(site, make_address("suites"))["tables"]
        shown = {column.suite for _, _, columns, _ in tables for column in columns}
        assert len(shown) == 8 and shown.isdisjoint({"quick v8", "quick-roar v1"})  # which the benchmark repeats
        cited = render_page(site, make_address("cite", "quick-v8")).html
        assert cited.count(">arXiv:1312.6034<") == 1, "a submission has only this address of its paper"
        three_gains = render_page(site, make_address("board", "benchmark-imagenette64-v1")).html
        assert 'class="board both" style="--n: 3"' in three_gains, "the columns of a row on a phone"
        both, first = views["quick-v8"], views["quick-v6"]
        assert both.combined_board and both.combined_board.headline and both.pictures
        drawn = [view.pictures for view in views.values() if view.pictures]
        assert all(("agree" in shown.rule) is ("sibling" in shown.kinds) for shown in drawn), "no label is used"
        assert first.headline_protocol.name == "matched"
        for result in (*both.results.results.values(), *first.results.results.values()):
            on_h100 = "H100" in result.provenance.hardware["device"]  # its checkout lacked data (docs/decisions/0052)
            assert on_h100 or "dirty" not in result.provenance.code_version
        doubts = [doubt for board in first.headline_boards for row in board.rows for doubt in row.doubts]
        assert first.pictures and first.board.headline
    shorts = {doubt.short for doubt in doubts}
    assert any("prediction stability" in short for short in shorts) and any(short.startswith("<") for short in shorts)
    assert not any("self-reported" in short for short in shorts)
