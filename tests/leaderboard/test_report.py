"""One suite in one file: the numbers of its table, nothing from elsewhere, and text from outside as text."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from leaderboard.report import methods, report_html, write_report
from leaderboard.views import SuiteView
from roarbench.analysis.load import Question, load_suite
from roarbench.errors import CallerError
from roarbench.plan.suites import find_suite
from tests.helpers.command_line import command

DEMO = Path(__file__).parents[2] / "demo"


@pytest.fixture(scope="module")
def view():
    return SuiteView(load_suite(find_suite("quick"), Question(DEMO)), DEMO, dict)


@pytest.fixture(scope="module")
def html(view):
    return report_html(view)


def test_it_has_the_gains_of_the_table(html, capsys):
    assert command("table", "--suite", "quick", "--store", DEMO, "--protocol", "matched", "--format", "json") == 0
    text = " ".join(re.sub(r"<[^>]+>", " ", html).replace("\u2212", "-").split())
    for row in json.loads(capsys.readouterr().out)["rows"]:
        if not row["place"]:  # a twin
            continue
        value, low, high = (
            f"{row[name]:+.1f}".replace("+0.0", "0.0").replace("-0.0", "0.0")
            for name in ("gain", "gain_low", "gain_high")
        )
        assert f"{row['estimator']} {value} {low} to {high}" in text


def test_it_needs_nothing_else_and_says_how_it_was_done(html, view):
    assert not re.findall(r'(?:src|href)="(?!data:)', html)
    assert "@inproceedings" in html or "@article" in html
    said = methods(view, view.board)
    assert "9,469 images of imagenette64" in said and "3,925 test images" in said and "t = 0.1, 0.5, 0.9" in said


def test_a_hostile_title_stays_text(view):
    hostile = replace(view.results, named=("<script>alert(1)</script>",))
    assert "<script" not in report_html(SuiteView(hostile, DEMO, dict))


def test_the_command_writes_html_once_and_nothing_else(tmp_path, capsys):
    path = tmp_path / "report.html"
    assert command("report", "--suite", "quick", "--store", DEMO, "-o", path) == 0
    assert path.read_text("utf-8").lstrip().startswith("<!doctype html>")
    assert command("report", "--suite", "quick", "--store", DEMO, "-o", path) == 2
    assert command("report", "--suite", "quick", "--store", DEMO, "-o", tmp_path / "report.txt") == 2
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
