"""The probability of the predicted class on the board: the app and the static pages say what the tables say."""

import csv
import html
import io
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from leaderboard import app
from leaderboard.commands import STORE, URL
from leaderboard.curves import probability_table, probability_tables
from leaderboard.snapshot import SuiteView
from leaderboard.static import Site, _board
from roarbench.analysis.boards import SuiteResults
from roarbench.protocols.unretrained import LERF, MORF
from roarbench.terms import Retrain, Unit

LEVELS = (0.5, 0.9)


def test_the_rows_are_those_of_the_board_with_the_best_first(quick: SuiteResults) -> None:
    morf = {row["estimator"]: row for row in probability_table(quick, MORF, Unit.SCALAR).records}
    lerf = {row["estimator"]: row for row in probability_table(quick, LERF, Unit.SCALAR).records}
    assert list(morf) == ["var-grad", "sgsq-grad", "gb", "sobel", "ig", "random", "grad-sq", "grad"]
    assert list(lerf) == list(morf)  # what falls most from one end falls least from the other
    # p is as good as `accuracy`, .9 at t = 0: .9 - .5 (.4 - .1) = .75 and .9 - .9 (.4 - .1) = .63 for the gradient
    grad = morf["grad"]
    assert grad["change at t = 0.5"] == pytest.approx(1 - 0.75 / 0.9, abs=1e-6)
    assert grad["change at t = 0.9"] == pytest.approx(1 - 0.63 / 0.9, abs=1e-6)
    assert grad["p at t = 0.9"] / grad["p at t = 0"] == pytest.approx(0.7, abs=1e-6)
    p = grad["p at t = 0"]
    assert grad["AOPC"] == pytest.approx(p * (1 / 6 + 0.3) / 2, abs=1e-6)
    assert grad["AOPC low"] < grad["AOPC"] < grad["AOPC high"]


def test_what_is_missing_is_last_and_without_a_number(quick: SuiteResults) -> None:
    results = {
        point: result
        for point, result in quick.results.items()
        if (point.cell.estimator, point.cell.retrain, point.cell.t) != ("var-grad", Retrain.NONE, 0.9)
    }
    last = probability_table(replace(quick, results=results), MORF, Unit.SCALAR).records[-1]
    assert (last["estimator"], last["AOPC"], last["p at t = 0.9"]) == ("var-grad", None, None)
    assert last["p at t = 0.5"] > 0
    old = {point: replace(result, probability=None) for point, result in quick.results.items()}
    assert probability_tables(replace(quick, results=old)) == []


def test_the_static_board_has_each_table_with_its_files(quick: SuiteResults, tmp_path: Path) -> None:
    shown = SuiteView(quick, tmp_path)
    site = Site(tmp_path, (shown,), {}, datetime(2026, 11, 20, tzinfo=UTC))
    site.write("board.html", "index.html", "Board", shown, title="Board", **_board(site, shown))
    page = re.sub(r'<td class="\w*">', "<td>", html.unescape((tmp_path / "index.html").read_text()))
    tables = probability_tables(quick)
    assert [table.title.rpartition(": ")[2] for table in tables] == ["MORF, unit scalar", "LERF, unit scalar"]
    for table in tables:
        assert f"<summary>{table.title}</summary>" in page
        assert table.explanation in page
        for row in table.records:
            cells = "".join(f"<td>{value:.3f}</td>" for value in list(row.values())[1:])
            assert f"<td>{row['estimator']}</td>{cells}" in page
        rows = list(csv.DictReader(io.StringIO((tmp_path / f"{table.stem}.csv").read_text())))
        assert [float(row["AOPC"]) for row in rows] == [pytest.approx(row["AOPC"], abs=1e-6) for row in table.records]
        assert f'href="{table.stem}.csv"' in page


@pytest.mark.slow
@pytest.mark.parametrize("protocol, count", [("roar", 0), ("morf", 1), ("lerf", 1)])
def test_the_app_has_it_under_protocols_without_retraining(
    monkeypatch: pytest.MonkeyPatch, quick: SuiteResults, quick_folder: Path, protocol: str, count: int
) -> None:
    monkeypatch.setenv(URL, f"sqlite:///{quick_folder}/results.sqlite")
    monkeypatch.setenv(STORE, str(quick_folder))
    test = AppTest.from_file(str(Path(app.__file__)), default_timeout=120)
    test.query_params["protocol"] = protocol
    test.run()
    assert not test.exception
    tables = [table.value for table in test.dataframe if "AOPC" in table.value]
    assert len(tables) == count
    for table in tables:
        expected = probability_table(quick, {"morf": MORF, "lerf": LERF}[protocol], Unit.SCALAR)
        assert table.to_dict("records") == expected.records
        assert expected.title in "".join(each.proto.body for each in test.get("html"))
        assert expected.explanation in [text.value for text in test.text]
