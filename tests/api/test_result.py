"""Rows computed from Python, as tables, frames and comparisons."""

import asyncio
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from captum.attr import Saliency

import roarbench
from roarbench.api import evaluate as evaluate_module
from roarbench.api.submission_source import make_submission
from roarbench.common.text import format_interval
from roarbench.compute.networks import build_network
from roarbench.execution import run_suite
from roarbench.submissions.submission_calls import adapt_function
from roarbench.submissions.submission_file import read_submission
from tests.helpers.processes import run_python
from tests.helpers.tiny_suite import InlineEngine
from tests.helpers.user_networks import gradient_x_input

ONE = torch.rand(8, 16, 16, generator=torch.Generator().manual_seed(0))
MINE, IG = {"mine": gradient_x_input}, {"ig": Saliency}

pytestmark = [pytest.mark.usefixtures("inline"), pytest.mark.process]  # each submission runs in a process


@pytest.fixture(scope="module")
def suite(suite, tmp_path_factory):
    """Put the suite into a store that other test files do not change."""
    return replace(suite, settings=replace(suite.settings, store=tmp_path_factory.mktemp("result")))


@pytest.fixture(scope="module")
def result(suite, inline):
    """Evaluate two functions under ROAR, with two trainings each."""
    return roarbench.evaluate(suite, MINE | IG, quiet=True)


@pytest.fixture(scope="module")
def empty_store_suite(suite, tmp_path_factory):
    return replace(suite, settings=replace(suite.settings, store=tmp_path_factory.mktemp("fresh")))


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        ("roarbench; dir(roarbench)", {"torch", "numpy"}),
        ("roarbench.api.all_results", {"torch", "sqlalchemy", "pandas", "matplotlib"}),
        ("roarbench.execution.run_suite, roarbench.api.training_free_measures", {"torchvision", "torch._dynamo"}),
    ],
)
def test_imports_load_no_large_packages(imported, absent):
    """Torch, and torchvision with the compiler, take seconds of CPU time in each process; SQLAlchemy takes 0.2."""
    assert run_python(f"import sys, {imported}; print({absent} & set(sys.modules))") == "set()\n"


def test_evaluate_names_trusted_rows_without_rerunning_them(suite, result, monkeypatch):
    frame = result.to_dataframe().set_index("name")
    assert set(frame.index) == {"random", "mine", "ig"}
    assert re.fullmatch("mine@.*~trusted", frame.loc["mine", "estimator"])
    assert re.fullmatch("own-ig@.*~trusted", frame.loc["ig", "estimator"])
    assert {frame.attrs[key] for key in ("suite", "version", "protocol", "limit")} == {"few", 1, "roar", 8}
    monkeypatch.setattr("roarbench.execution.run_suite.do_steps_on_workers", None)
    again = roarbench.evaluate(suite, MINE, quiet=True).to_dataframe().set_index("name")
    assert again.loc["mine", "gain"] == frame.loc["mine", "gain"]
    assert set(again.index) == {"random", "mine"}


def test_compare_returns_antisymmetric_difference_of_gains(result):
    gains = result.to_dataframe().set_index("name")["gain"]
    found, turned = result.compare("mine", "ig"), result.compare("ig", "mine")
    assert found.points == pytest.approx(gains["mine"] - gains["ig"])
    assert (found.low, found.high) == pytest.approx((-turned.high, -turned.low))
    assert found.low <= found.points <= found.high and found.p_adjusted == turned.p_adjusted
    assert result.stored.at_chance_warning and found.p_adjusted is found.verdict is None  # as in the table
    assert str(found) == f"mine - ig: {format_interval(found[:3])} points: no verdict"
    for names, words in ((("yours", "ig"), "no row 'yours'; known: ig, mine, .*own-ig"), (("ig", "ig"), "with itself")):
        with pytest.raises(roarbench.CallerError, match=words):
            result.compare(*names)
    assert result.find_row_id("own-ig") == result.find_row_id("ig") == result.names["ig"]
    taken = replace(result, names={"random": result.names["ig"]})  # a stored row has the caller's name
    assert (taken.find_row_id("random"), taken.find_row_id("own-ig")) == ("random", result.names["ig"])
    assert list(taken.to_dataframe()["name"]).count("random") == 1


def test_result_repr_shows_text_or_html(result, tmp_path, monkeypatch):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)  # Rich would print text itself
    assert " mine (added) " in repr(result) and "@" not in repr(result) and ": ROAR" in repr(result)
    assert "explained by result.notes() and docs/" in repr(result) and "--notes" not in repr(result)
    assert "Hash of the runs: " in result.notes()
    html = result._repr_html_()
    assert html.startswith('<img alt="curves" src="data:image/png;base64,') and html.count("<tr>") == 4
    result.plot(tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").stat().st_size > 1000


def test_evaluate_precomputed_maps_match_function(suite, result):
    """Precomputed maps of a function give the same rankings, hence the same curves."""
    (reference,) = suite.load_or_train_references()
    test, train = suite.load_test_data().images, suite.load_training_data().images
    made = {
        "test": [gradient_x_input(reference.model, test, reference.targets).detach()],
        "train": [gradient_x_input(reference.model, train, reference.train_targets).detach()],
    }
    joined = result | roarbench.evaluate(suite, {"saved": made}, quiet=True)
    for protocol in ("roar", "morf"):
        curves = joined.to_dataframe(protocol).set_index("name").filter(like="accuracy")
        assert (curves.loc["saved"] == curves.loc["mine"]).all()
    assert joined.compare("saved", "mine").points == 0
    alone = roarbench.evaluate(suite, {"alone": made["test"]}, quiet=True)
    assert "alone" in set(alone.to_dataframe("morf")["name"])
    assert "alone" not in set(alone.to_dataframe("roar")["name"])


def follow_first_target(model, inputs, targets):
    return inputs * (1 + targets[0])


def clip_by_quantile_of_batch(model, inputs, targets):
    return inputs.clamp(max=inputs.quantile(0.5))


def subtract_batch_mean(model, inputs, targets):
    return inputs - inputs.mean(0)


def group_by_target(model, inputs, targets):
    """Return maps class by class, in the order in which classes occur, not in the order of the images."""
    return torch.cat([inputs[targets == label] for label in dict.fromkeys(targets.tolist())])


def sort_by_target(model, inputs, targets):
    return inputs[targets.argsort(descending=True, stable=True)]


KEPT: dict = {}


def keep_by_shape(model, inputs, targets):
    return KEPT.setdefault(tuple(inputs.shape), inputs)


def draw_points_of_line(model, inputs, targets):
    """Return gradients at points between 0 and each image; without biases, all points would have the same."""
    points = torch.rand(len(inputs), 1, 1, 1, generator=torch.Generator().manual_seed(0)) * inputs
    return torch.autograd.grad(model(points.requires_grad_()).gather(1, targets[:, None]).sum(), points)[0]


def clip_in_large_batches(model, inputs, targets):
    return inputs.clamp(min=0) if len(inputs) > 32 else inputs


def depend_on_module(model, inputs, targets):
    return inputs.abs() if depend_on_module.__module__ == "roarbench_submission" else inputs


def set_training_mode(model, inputs, targets):
    model.train()
    return inputs


@pytest.mark.parametrize(
    ("given", "protocol", "words"),
    [
        (lambda model, inputs, targets: inputs[..., :4], "", r"saved: the map has shape \(4, 3, 16, 4\)"),
        (lambda model, inputs, targets: inputs / 0 * 0, "", "saved: .* NaN or infinite"),
        (subtract_batch_mean, "", "depends on its batch"),
        (follow_first_target, "", "depends on its batch"),
        (clip_by_quantile_of_batch, "", "depends on its batch"),
        (group_by_target, "", "depends on its batch"),
        (sort_by_target, "", "depends on its batch"),
        (keep_by_shape, "", "depends on its batch or on earlier calls"),
        (draw_points_of_line, "", "depends on its batch"),
        (clip_in_large_batches, "", "depends on its batch"),
        (depend_on_module, "", "saved: the file of the function, which a run calls, computes other maps"),
        (set_training_mode, "", "modified the model"),
        (ONE, "roar", r'maps of test images only, but roar .* also needs maps of training images; pass {"test"'),
        ([ONE, ONE], "morf", "saved has 2 sets of maps of test images, expected 1"),
        (ONE[:4], "morf", r"maps 0 of saved have shape \(4, 16, 16\), expected"),
        (ONE / 0, "morf", "NaN or infinite"),
        (ONE[:0], "morf", "saved has an array of shape .0,.*; expected numbers .n, c, h, w."),
        ({"tests": ONE}, "morf", "saved has maps of 'tests'"),
        ({"train": ONE}, "morf", "saved has no maps of test images; pass"),
        ("truth", "kar", "suite 'few' has no kar; it has: roar, morf"),
        ("maps.npy", "", "saved is the file maps.npy; load the file with np.load, and"),
    ],
)
def test_evaluate_rejects_unusable_functions_and_maps_before_storing(suite, given, protocol, words, monkeypatch):
    monkeypatch.setattr("roarbench.api.evaluate.check_and_store_submissions", None)
    with pytest.raises(roarbench.CallerError, match=words):
        roarbench.evaluate(suite, {"saved": given}, protocol=protocol, quiet=True)


def give_bytes(model, inputs, targets):
    return (inputs * 20).long().float()


def test_evaluate_warns_of_single_constant_maps(suite):
    maps = (
        torch.rand(8, 16, 16, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0] * 7 + [0])[:, None, None]
    )
    words = "1 of 8 maps of saved have the same value everywhere, so features"
    with pytest.warns(UserWarning, match=words), suppress(roarbench.CallerError):  # two sets of maps are refused later
        roarbench.evaluate(suite, {"saved": [maps, torch.rand(8, 16, 16)]}, quiet=True)


def test_evaluate_warns_of_maps_of_bytes(suite):
    array = np.random.default_rng(0).integers(0, 256, (3, 3, 16, 16), np.uint8)
    for given in (give_bytes, [array, array]):  # two sets of maps are refused later
        with pytest.warns(UserWarning, match="the maps of mine have at most 256"), suppress(roarbench.CallerError):
            roarbench.evaluate(suite, {"mine": given, "and": "no estimator"}, quiet=True)


def scale_by_environment(model, inputs, targets):
    return inputs * float(os.environ.get("SCALE", "1"))


def scale_by_arguments(model, inputs, targets):
    return inputs * len(sys.argv)


def scale_by_module(model, inputs, targets):
    return inputs * len(__name__)


@pytest.mark.parametrize("given", [scale_by_environment, scale_by_arguments])
def test_evaluate_warns_of_environment_variables_and_arguments(suite, given):
    """A run has none, so the function would take its default in silence."""
    estimators = {"mine": given, "and": "no estimator"}
    match = "mine reads (environ|argv), with other values or none where its file runs; pass values as defaults"
    with pytest.warns(UserWarning, match=match), suppress(roarbench.CallerError):
        roarbench.evaluate(suite, estimators, quiet=True)


def test_evaluate_rejects_function_without_name_and_swapped_arguments(suite):
    with pytest.raises(roarbench.CallerError, match=r'an estimator is a function without a name; write \{"mine": …\}'):
        roarbench.evaluate(suite, gradient_x_input, quiet=True)
    with pytest.raises(roarbench.CallerError, match="suite is a function; expected a suite's name"):
        roarbench.evaluate(gradient_x_input, suite, quiet=True)


def test_write_submission_writes_function_once(tmp_path):
    path = roarbench.write_submission(gradient_x_input, "boxed", tmp_path)
    assert path == roarbench.write_submission(gradient_x_input, "boxed", tmp_path) == tmp_path / "boxed.py"
    assert read_submission(path).description == "Gradient times input, summed over channels."


def test_write_submission_warns_of_values_outside_the_file(tmp_path):
    match = "mine reads __name__, with other values or none where its file runs"
    with pytest.warns(UserWarning, match=match), suppress(roarbench.CallerError):
        roarbench.write_submission(scale_by_module, "mine", tmp_path)


class Base:
    def weigh(self, maps):
        return maps + torch.rand(())


class Later:
    def weigh(self, maps):
        return -maps


class Derived(Base):
    def __init__(self, model):
        pass

    def attribute(self, inputs, target):
        return self.weigh(inputs.detach())


def explain_thousand_classes(model, inputs, targets):
    return inputs * model(inputs)[:, 999]


def test_write_submission_refuses_a_file_with_other_maps_than_the_function(tmp_path, monkeypatch):
    """A cell of a notebook, run again, gives a base another class, and its derived class keeps the earlier one."""
    state = torch.get_rng_state()
    roarbench.write_submission(Derived, "before", tmp_path)
    roarbench.write_submission(explain_thousand_classes, "of-another-network", tmp_path)
    assert torch.equal(torch.get_rng_state(), state)
    monkeypatch.setitem(globals(), "Base", Later)
    with pytest.raises(roarbench.CallerError, match="mine: the file of the function, .*, computes other maps than the"):
        roarbench.write_submission(Derived, "mine", tmp_path)


def test_evaluate_runs_in_two_threads_on_one_store(empty_store_suite):
    with ThreadPoolExecutor(2) as pool:
        evaluate = partial(roarbench.evaluate, empty_store_suite, protocol="morf", quiet=True)
        one, two = pool.map(evaluate, (MINE, IG))
    joined = (one | two).to_dataframe("morf")
    assert set(joined["name"]) == {"random", "mine", "ig"} and joined["gain"].notna().all()
    stored = empty_store_suite.result()
    assert {"mine", "own-ig"} <= set(stored.to_dataframe("morf")["name"])


def test_no_network_is_built_while_a_function_is_tried(empty_store_suite):
    """A network's weights come from the global generator, whose state tells whether the function draws."""
    built = []

    def explain(model, inputs, targets):
        if not built:
            built.append(pool.submit(build_network, "resnet8", 2, 3, 16, torch.Generator()))
            assert not wait(built, 0.5).done
        return gradient_x_input(model, inputs, targets)

    with ThreadPoolExecutor(1) as pool:
        submission = make_submission("mine", gradient_x_input)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(evaluate_module, "load_entry_point", lambda source: adapt_function(explain))
            evaluate_module._try_function_on_noise(submission, adapt_function(explain), empty_store_suite.runnable_plan)
        assert built[0].result(10)


def test_evaluate_resumes_after_interrupt_in_event_loop(empty_store_suite, monkeypatch):
    """Cells of a notebook run in an event loop, and leases of its process survive the interrupt."""
    runs = []

    class Engine(InlineEngine):
        def start_job(self, job):
            super().start_job(job)
            found = re.findall("^[0-9a-f]+$", job.name)  # jobs of runs are named by their keys
            runs.extend(found)
            if found and len(runs) == 2:
                raise KeyboardInterrupt

    async def cell():
        return roarbench.evaluate(empty_store_suite, MINE, protocol="roar", quiet=True)

    monkeypatch.setattr(run_suite, "LocalEngine", Engine)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell())
    kept = empty_store_suite.result().stored.results
    assert kept
    result = asyncio.run(cell())
    assert result.to_dataframe()["gain"].notna().all() and kept.items() <= result.stored.results.items()


def test_suite_result_raises_without_stored_rows(suite, result, tmp_path):
    with pytest.raises(roarbench.RoarbenchError):
        replace(suite, settings=replace(suite.settings, store=tmp_path / "none")).result()
    with pytest.raises(roarbench.CallerError, match=r"has no results of grad; roarbench.evaluate\(suite\) computes"):
        suite.result(["grad"])
