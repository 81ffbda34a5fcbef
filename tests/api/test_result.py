"""Rows that were made from Python, as tables, frames and comparisons."""

import re
import subprocess
import sys

import pytest
import torch

import roarbench
from roarbench.submissions.file import read_submission
from roarbench.terms import Split
from tests.helpers.given import gradient_x_input

ONE = torch.ones(8, 16, 16)

pytestmark = [pytest.mark.usefixtures("inline"), pytest.mark.process]  # a submission is a process of its own


def test_rows_are_called_as_they_were_given_and_say_that_no_sandbox_held(result):
    frame = result.to_dataframe()
    assert set(frame["name"]) == {"random", "mine", "ig"}
    ids = dict(zip(frame["name"], frame["estimator"], strict=True))
    assert ids["mine"].startswith("mine@") and ids["ig"].startswith("own-ig@")
    assert all(ids[name].endswith("~trusted") for name in ("mine", "ig"))
    assert {frame.attrs[key] for key in ("suite", "version", "protocol", "limit")} == {"few", 1, "roar", 8}


def test_the_same_call_again_runs_nothing(suite, result, monkeypatch):
    monkeypatch.setattr("roarbench.execution.runner.at_work", None)
    again = roarbench.evaluate(suite, {"mine": gradient_x_input}, quiet=True)
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


def test_it_shows_itself_as_text_and_as_a_picture_with_a_table(result, tmp_path, monkeypatch):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)  # where Rich shows text itself
    assert "mine@" in repr(result) and "ROAR on planted" in repr(result)
    html = result._repr_html_()
    assert html.startswith('<img alt="curves" src="data:image/png;base64,') and html.count("<tr>") == 4
    result.plot(tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").stat().st_size > 1000


def test_rows_of_two_results_of_one_store_are_joined(suite, result):
    truth = roarbench.evaluate(suite, ["truth"], quiet=True)
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
        ("grad", "suite 'few' has no 'grad'"),
    ],
    ids=["shape", "nothing", "name", "not-in-suite"],
)
def test_what_cannot_be_run_is_refused_before_anything_is(suite, given, words):
    with pytest.raises(Exception, match=words):
        roarbench.evaluate(suite, given, quiet=True)


def test_to_import_it_takes_no_torch():
    seen = "import sys, roarbench; dir(roarbench); print('torch' in sys.modules, 'numpy' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "False"]


def test_maps_that_are_there_are_asked_what_they_can_be(suite, result):
    """The maps of a function, handed in, give its rows: the rankings are the same."""
    made = {
        split.value: [gradient_x_input(one.model, images.images, targets).detach() for one, targets in explained]
        for split, images, explained in (
            (Split.TEST, suite.test, [(one, one.targets) for one in suite.references]),
            (Split.TRAIN, suite.train, [(one, one.train_targets) for one in suite.references]),
        )
    }
    joined = result | roarbench.evaluate(suite, {"saved": made}, quiet=True)
    for protocol in ("roar", "morf"):
        curves = joined.to_dataframe(protocol).set_index("name").filter(like="accuracy")
        assert (curves.loc["saved"] == curves.loc["mine"]).all()
    alone = roarbench.evaluate(suite, {"alone": made["test"]}, quiet=True)
    assert "alone" in set(alone.to_dataframe("morf")["name"])
    assert "alone" not in set(alone.to_dataframe("roar")["name"])


@pytest.mark.parametrize(
    ("given", "protocol", "words"),
    [
        (ONE, "roar", 'saved has maps of test images, and roar of few v1 also ranks training images; hand in {"test"'),
        ([ONE, ONE], "morf", "saved has 2 sets of maps of test images, expected 1"),
        (ONE[:4], "morf", "maps 0 of saved have shape .4, 16, 16., expected"),
        (ONE / 0, "morf", "NaN or infinite"),
        ({"tests": ONE}, "morf", "saved has maps of 'tests'"),
        ("truth", "kar", "suite 'few' has no kar; it has: roar, morf"),
    ],
    ids=["training-images", "references", "images", "finite", "split", "protocol"],
)
def test_maps_that_do_not_fit_are_refused_in_words(suite, given, protocol, words):
    with pytest.raises(roarbench.CallerError, match=re.escape(words) if "{" in words else words):
        roarbench.evaluate(suite, {"saved": given}, protocol=protocol, quiet=True)


def test_a_row_in_the_sandbox_is_not_trusted(suite, tmp_path):
    path = roarbench.submission(gradient_x_input, "boxed", tmp_path)
    assert path == roarbench.submission(gradient_x_input, "boxed", tmp_path) == tmp_path / "boxed.py"
    assert read_submission(path).description == "Gradient times input, summed over channels."
