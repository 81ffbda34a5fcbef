"""Rows that were made from Python, as tables, frames and comparisons, wherever Python runs."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from captum.attr import Saliency

import roarbench
from roarbench.common.enums import Split
from roarbench.execution import local_workers_and_rates
from roarbench.submissions.file import read_submission
from tests.helpers.elsewhere import python, said_by
from tests.helpers.given import gradient_x_input
from tests.helpers.tiny_suite import InlineEngine

ONE = torch.ones(8, 16, 16)
MINE, IG = {"mine": gradient_x_input}, {"ig": Saliency}

pytestmark = [pytest.mark.usefixtures("inline"), pytest.mark.process]  # a submission is a process of its own


@pytest.fixture(scope="module")
def suite(suite, tmp_path_factory):
    """The suite of all these files in a store of its own: other files add rows to theirs."""
    return replace(suite, store=tmp_path_factory.mktemp("result"))


@pytest.fixture(scope="module")
def result(suite, inline):
    """Two rows of functions under ROAR, two trainings each."""
    return roarbench.evaluate(suite, MINE | IG, quiet=True)


@pytest.fixture(scope="module")
def fresh(suite, tmp_path_factory):
    """The same suite, in a store without rows."""
    return replace(suite, store=tmp_path_factory.mktemp("fresh"))


def test_to_import_it_takes_no_torch():
    seen = python("import sys, roarbench; dir(roarbench); print('torch' in sys.modules, 'numpy' in sys.modules)")
    assert said_by(seen).split() == ["False", "False"]


def test_to_run_a_suite_or_check_a_network_torchvision_and_the_compiler_are_imported_only_where_they_are_used():
    """They take two seconds of processor time in each process."""
    modules = "roarbench.execution.run_suite, roarbench.execution.network_jobs, roarbench.api.training_free_check"
    seen = python(f"import sys, {modules}; print({{'torchvision', 'torch._dynamo'}} & set(sys.modules))")
    assert said_by(seen) == "set()\n"


def test_rows_are_called_as_they_were_given_say_that_no_sandbox_held_and_are_not_run_again(suite, result, monkeypatch):
    frame = result.to_dataframe()
    assert set(frame["name"]) == {"random", "mine", "ig"}
    ids = dict(zip(frame["name"], frame["estimator"], strict=True))
    assert ids["mine"].startswith("mine@") and ids["ig"].startswith("own-ig@")
    assert all(ids[name].endswith("~trusted") for name in ("mine", "ig"))
    assert {frame.attrs[key] for key in ("suite", "version", "protocol", "limit")} == {"few", 1, "roar", 8}
    monkeypatch.setattr("roarbench.execution.run_suite.schedule_runs_on_workers", None)
    again = roarbench.evaluate(suite, MINE, quiet=True).to_dataframe().set_index("name")
    assert again.loc["mine", "gain"] == frame.set_index("name").loc["mine", "gain"]
    assert set(again.index) == {"random", "mine"}


def test_a_difference_is_that_of_the_gains_and_turns_with_the_rows(result):
    gains = result.to_dataframe().set_index("name")["gain"]
    found, turned = result.compare("mine", "ig"), result.compare("ig", "mine")
    assert found.points == pytest.approx(gains["mine"] - gains["ig"])
    assert (found.low, found.high) == pytest.approx((-turned.high, -turned.low))
    assert found.low <= found.points <= found.high and found.p_adjusted == turned.p_adjusted
    assert result.stored.at_chance_warning and (found.p_adjusted, found.verdict) == (None, None)  # as in the table
    with pytest.raises(roarbench.CallerError, match="there is no row 'yours' here, only: mine, ig"):
        result.compare("yours", "ig")
    with pytest.raises(roarbench.CallerError, match="^ig cannot be compared with itself; name two different rows$"):
        result.compare("ig", "ig")


def test_it_shows_itself_as_text_and_as_a_picture_with_a_table(result, tmp_path, monkeypatch):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)  # where Rich shows text itself
    assert " mine (added) " in repr(result) and "@" not in repr(result) and ": ROAR" in repr(result)
    html = result._repr_html_()
    assert html.startswith('<img alt="curves" src="data:image/png;base64,') and html.count("<tr>") == 4
    for shown in (repr(result), html):  # an option of the command line alone
        assert "--notes" not in shown and "explained by docs/how-it-works.md." in " ".join(shown.split())
    assert repr(result.table("roar")).startswith("<ROAR table of ") and "3 rows" in repr(result.table("roar"))
    result.plot(tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").stat().st_size > 1000


def test_maps_that_are_there_are_asked_what_they_can_be(suite, result):
    """The maps of a function, handed in, give its rows: the rankings are the same."""
    references = suite.load_or_train_references()
    made = {
        split.value: [gradient_x_input(one.model, images.images, targets).detach() for one, targets in explained]
        for split, images, explained in (
            (Split.TEST, suite.load_test_data(), [(one, one.targets) for one in references]),
            (Split.TRAIN, suite.load_training_data(), [(one, one.train_targets) for one in references]),
        )
    }
    joined = result | roarbench.evaluate(suite, {"saved": made}, quiet=True)
    for protocol in ("roar", "morf"):
        curves = joined.to_dataframe(protocol).set_index("name").filter(like="accuracy")
        assert (curves.loc["saved"] == curves.loc["mine"]).all()
    assert joined.compare("saved", "mine").points == 0
    alone = roarbench.evaluate(suite, {"alone": made["test"]}, quiet=True)
    assert "alone" in set(alone.to_dataframe("morf")["name"])
    assert "alone" not in set(alone.to_dataframe("roar")["name"])


def test_what_cannot_be_run_and_maps_that_do_not_fit_are_refused_in_words(suite):
    for given, protocol, words in (
        (lambda model, inputs, targets: inputs[..., :4], "roar", "the maps of saved have shape (4, 3, 16, 4)"),
        (
            ONE,
            "roar",
            'has maps of test images only, but roar of few v1 also needs maps of training images; pass {"test"',
        ),
        ([ONE, ONE], "morf", "saved has 2 sets of maps of test images, expected 1"),
        (ONE[:4], "morf", "maps 0 of saved have shape (4, 16, 16), expected"),
        (ONE / 0, "morf", "NaN or infinite"),
        ({"tests": ONE}, "morf", "saved has maps of 'tests'"),
        ("truth", "kar", "suite 'few' has no kar; it has: roar, morf"),
    ):
        with pytest.raises(roarbench.CallerError, match=re.escape(words)):
            roarbench.evaluate(suite, {"saved": given}, protocol=protocol, quiet=True)


def test_a_function_is_written_as_a_submission_once(tmp_path):
    path = roarbench.write_submission(gradient_x_input, "boxed", tmp_path)
    assert path == roarbench.write_submission(gradient_x_input, "boxed", tmp_path) == tmp_path / "boxed.py"
    assert read_submission(path).description == "Gradient times input, summed over channels."


def test_two_threads_make_rows_of_one_store_at_once(fresh):
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda one: roarbench.evaluate(fresh, one, protocol="morf", quiet=True), (MINE, IG))
    joined = (one | two).to_dataframe("morf")
    assert set(joined["name"]) == {"random", "mine", "ig"} and joined["gain"].notna().all()


def test_after_an_interrupt_the_same_call_goes_on_also_inside_a_running_loop(fresh, monkeypatch):
    """As in a notebook, whose cells run in a loop, and whose process holds what it leases as long as it lives."""
    runs = []

    class Engine(InlineEngine):
        def start_job(self, job):
            super().start_job(job)
            found = re.findall("^[0-9a-f]+$", job.name)  # runs are called by their keys
            runs.extend(found)
            if found and len(runs) == 2:
                raise KeyboardInterrupt

    async def cell():
        return roarbench.evaluate(fresh, MINE, protocol="roar", quiet=True)

    monkeypatch.setattr(local_workers_and_rates, "LocalEngine", Engine)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    kept = fresh.result().stored.results
    assert kept
    result = asyncio.run(cell())
    assert result.to_dataframe()["gain"].notna().all() and kept.items() <= result.stored.results.items()


def test_the_result_has_the_suite_s_rows_too_and_all_by_their_names(suite, tmp_path):
    suite = replace(suite, store=tmp_path)  # whose rows no other test counts
    roarbench.evaluate(suite, IG, protocol="morf", quiet=True)
    roarbench.evaluate(suite, ["truth"], protocol="morf", quiet=True)
    found = roarbench.evaluate(suite, MINE, protocol="morf", quiet=True)
    assert {"random", "mine", "truth"} <= set(found.to_dataframe("morf")["name"])
    assert found.compare("mine", "truth", "morf").points is not None
    stored = suite.result()
    assert {"mine", "own-ig", "truth"} <= set(stored.to_dataframe("morf")["name"])
    assert stored.compare("mine", "truth", "morf") == found.compare("mine", "truth", "morf")


def test_a_store_without_rows_of_a_suite_is_an_error(fresh, suite, result):
    with pytest.raises(roarbench.RoarbenchError):
        replace(fresh, store=fresh.store / "none").result()
    with pytest.raises(
        roarbench.CallerError, match=r"has no results of few v9; roarbench.evaluate\(suite\) computes them"
    ):
        replace(suite, plan=replace(suite.plan, version=9, dataset="planted-brief")).result()
    with pytest.raises(roarbench.CallerError, match="has no results of grad;"):
        suite.result(["grad"])


def zeroing(model, images, targets, generator):  # functions of three arguments get a copy
    return images.clone() + images.zero_()


def by_batch(model, inputs, targets):
    return inputs - inputs.mean(0)


def nothing(model, inputs, targets):
    return inputs / 0 * 0


def training(model, inputs, targets):
    model.train()
    return inputs


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (zeroing, "changed its images or targets in place"),
        (by_batch, "depends on its batch"),
        (nothing, "NaN or infinite"),
        (training, "changed the network"),
    ],
)
def test_a_function_is_checked_as_validate_does_before_anything_is_kept_of_it(suite, given, words, monkeypatch):
    monkeypatch.setattr("roarbench.api.evaluate.check_and_store_submissions", None)
    with pytest.raises(roarbench.CallerError, match=words):
        roarbench.evaluate(suite, {"refused": given}, quiet=True)


def test_a_table_shows_another_fill_and_names_those_that_there_are(result):
    blocks = result.stored.suite.blocks
    both = (*blocks, *(replace(block, fill="linear") for block in blocks))
    filled = replace(result, stored=replace(result.stored, suite=replace(result.stored.suite, blocks=both)))
    assert (filled.table("roar").fill, filled.table("roar", fill="linear").fill) == ("mean", "linear")
    assert filled.to_dataframe("roar", fill="linear")["gain"].isna().all(), "nothing was run by it"
    with pytest.raises(roarbench.CallerError, match="no roar with the fill 'linear'; it has: mean"):
        result.table("roar", fill="linear")
