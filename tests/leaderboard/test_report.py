"""One suite in one file: the numbers of its table, nothing from elsewhere, and text from outside as text."""

import re
from dataclasses import replace

import pytest

from leaderboard.report import methods, report_html, write_report
from leaderboard.views import SuiteView
from roarbench.errors import CallerError
from roarbench.plan.suites import SUITES
from roarbench.text import interval
from tests.helpers.board_store import make_store
from tests.helpers.command_line import command


@pytest.fixture(scope="module")
def view(views):
    return views["quick-v1"]


def test_it_has_the_gains_of_the_table_needs_nothing_else_and_says_how_it_was_done(view):
    html = report_html(view)
    text = " ".join(re.sub(r"<[^>]+>", " ", html).replace("\u2212", "-").split())
    placed = [row for row in view.table(view.leading).rows if row.place]
    for row in placed:
        assert f"{row.estimator} {interval(row.gain).replace(', ', ' to ').strip(']').replace('[', '')}" in text
    assert len(placed) == 9
    assert not re.findall(r'(?:src|href)="(?!data:)', html)
    assert "@inproceedings" in html or "@article" in html
    said = methods(view, view.board)
    assert "9,469 images of imagenette64" in said and "300 test images" in said and "t = 0.5, 0.9" in said


def test_a_hostile_title_stays_text(view):
    hostile = replace(view.results, named=("<script>alert(1)</script>",))
    assert "<script" not in report_html(SuiteView(hostile, view.folder, dict))


def test_the_command_writes_html_once_and_nothing_else(tmp_path, capsys):
    make_store(tmp_path, SUITES["planted"], images=20)
    asked = ("report", "--suite", "planted", "--store", tmp_path, "-o")
    path = tmp_path / "report.html"
    assert command(*asked, path) == 0
    assert path.read_text("utf-8").lstrip().startswith("<!doctype html>")
    assert command(*asked, path) == command(*asked, tmp_path / "report.txt") == 2
    assert "report.html" in capsys.readouterr().err


@pytest.mark.browser
def test_a_pdf_is_printed(view, tmp_path, require):
    require("chromium", "it prints a report as PDF: apt-get install chromium")
    write_report(view, tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_without_a_browser_a_pdf_is_refused(view, tmp_path, monkeypatch):
    monkeypatch.setattr("leaderboard.report.shutil.which", lambda name: None)
    with pytest.raises(CallerError, match="apt-get install chromium"):
        write_report(view, tmp_path / "report.pdf")
    assert list(tmp_path.iterdir()) == []
