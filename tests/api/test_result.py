"""Rows that were made from Python, as tables, frames and comparisons."""

import subprocess
import sys

import pytest

import roarbench
from tests.api.conftest import gradient_x_input


def test_rows_are_called_as_they_were_given_and_say_that_no_sandbox_held(result):
    frame = result.to_dataframe()
    assert set(frame["name"]) == {"random", "mine", "ig"}
    ids = dict(zip(frame["name"], frame["estimator"], strict=True))
    assert ids["mine"].startswith("mine@") and ids["ig"].startswith("own-ig@")
    assert all(ids[name].endswith("~trusted") for name in ("mine", "ig"))
    assert {frame.attrs[key] for key in ("suite", "version", "protocol", "limit")} == {"planted", 1, "roar", 8}


def test_the_same_call_again_runs_nothing(suite, result, monkeypatch):
    monkeypatch.setattr("roarbench.execution.runner.at_work", None)
    again = roarbench.evaluate(suite, {"mine": gradient_x_input}, protocol="roar", seeds=2, quiet=True)
    assert (
        again.to_dataframe().query("name == 'mine'")["gain"].item()
        == result.to_dataframe().query("name == 'mine'")["gain"].item()
    )
    assert set(again.to_dataframe()["name"]) == {"random", "mine"}


def test_a_difference_is_that_of_the_gains_and_turns_with_the_rows(result):
    gains = result.to_dataframe().set_index("name")["gain"]
    found, turned = result.compare("mine", "ig"), result.compare("ig", "mine")
    assert found.points == pytest.approx(gains["mine"] - gains["ig"])
    assert (found.low, found.high) == pytest.approx((-turned.high, -turned.low))
    assert found.low <= found.points <= found.high and found.p_adjusted == turned.p_adjusted


def test_a_row_that_is_not_there_is_refused_by_name(result):
    with pytest.raises(roarbench.CallerError, match="no row 'yours' here; there are: mine, ig"):
        result.compare("yours", "ig")


def test_it_shows_itself_as_text_and_as_a_picture_with_a_table(result, tmp_path):
    assert "mine@" in repr(result) and "ROAR on planted" in repr(result)
    html = result._repr_html_()
    assert html.startswith('<img alt="curves" src="data:image/png;base64,') and html.count("<tr>") == 4
    result.plot(tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").stat().st_size > 1000


def test_rows_of_two_results_of_one_store_are_joined(suite, result):
    truth = roarbench.evaluate(suite, ["truth"], protocol="roar", seeds=2, quiet=True)
    joined = truth
    joined |= result
    assert set(joined.to_dataframe()["name"]) == {"random", "mine", "ig", "truth"}
    assert joined.compare("truth", "mine").points is not None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bad": lambda model, inputs, targets: inputs[..., :4]}, r"the maps of bad have shape \(2, 3, 16, 4\)"),
        ({"bad": lambda model, inputs, targets: None}, "bad returned|NoneType"),
        (["grad", "smothgrad"], "no estimator 'smothgrad'"),
        (["grad"], "suite 'planted' has no 'grad'"),
    ],
    ids=["shape", "nothing", "name", "not-in-suite"],
)
def test_what_cannot_be_run_is_refused_before_anything_is(suite, inline, given, words):
    with pytest.raises(Exception, match=words):
        roarbench.evaluate(suite, given, quiet=True)


def test_to_import_it_takes_no_torch():
    seen = "import sys, roarbench; dir(roarbench); print('torch' in sys.modules, 'numpy' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "False"]
