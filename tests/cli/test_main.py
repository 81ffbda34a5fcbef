"""Output and exit codes of commands, called in this process."""

import csv
import json
import re
import tomllib
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from unittest.mock import Mock

import pytest

from roarbench.analysis.load_results import load_from_open_store
from roarbench.api import suites
from roarbench.cli import main
from roarbench.cli.options import EngineOptions
from roarbench.cli.run import _warn_of_missing_compiler
from roarbench.common import device_settings
from roarbench.common.enums import ScoredNetwork, Unit
from roarbench.common.errors import RunError
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.execution import job_graph, run_suite
from roarbench.plan.settings import Settings
from roarbench.plan.suite_changes import add_estimators_with_twins, parse_estimators_option
from roarbench.plan.suites import SUITE_VERSIONS, SUITES, find_builtin_suite
from roarbench.store.results import ResultsStore, make_default_url
from tests.helpers.board_store import make_store, results
from tests.helpers.command_line import PART, RUNS, SMALL, read_files, read_refusal, record
from tests.helpers.processes import ROOT, read_results
from toy import linear

COMMANDS = main.app.commands
TITLE = "planted v1 (small version: 8 images per split)"


@pytest.mark.slow
def test_run_prints_plan_then_repeats_without_work(call, tmp_path):
    store = tmp_path / "store"
    code, out, err = call("run", *PART, "--store", store)
    assert (code, TITLE in out) == (0, True)
    lines = err.splitlines()
    start = lines.index(f"{TITLE}: {RUNS} of {RUNS} runs to do")
    assert lines[start + 1].startswith("  time about ") and " measured just now" in lines[start + 1]
    assert lines[start + 2].startswith(f"  {RUNS} trainings, no explained networks; disk ")
    assert f"results {store}/results.sqlite; rankings and explained networks {store}" in lines
    stored = read_results(make_default_url(store)).values()
    assert len(stored) == RUNS
    assert {row.run.cell.estimator for row in stored} == {"none", "random", "truth"}  # the control is added
    before = read_files(store)
    again = call("run", *PART, "--store", store, "--format", "json")
    assert json.loads(again.out)["rows"][0]["seeds"] == 1
    assert f"all {RUNS} runs are done" in again.err and "to do" not in again.err
    assert read_files(store) == before


@pytest.mark.slow
def test_failed_run_is_repeated_only_after_retry(call, tmp_path, monkeypatch):
    score = job_graph.execute_runs

    def fail_one_run(work, runs):
        if ("truth", 0.5, "morf") in [(run.cell.estimator, run.cell.t, run.cell.order) for run in runs]:
            raise RunError("the loss went away")
        return score(work, runs)

    monkeypatch.setattr(job_graph, "execute_runs", fail_one_run)
    answer = call("run", *PART, "--store", tmp_path)
    assert answer.code == 1
    assert "failed: ROAR: truth t=0.5 seed 0: the loss went away" in answer.err.splitlines()
    assert "failed runs are repeated only after" in answer.err
    rows = {line.split()[1]: line.split() for line in answer.out.splitlines() if "truth" in line or "random" in line}
    assert (rows["random"][2], rows["truth"][2]) == ("0.0", "–")
    failure = {"run": "roar truth t=0.5 scalar seed 0", "estimator": "truth", "reason": "the loss went away"}
    assert record(call, "status", *SMALL, "--store", tmp_path)["failures"] == [failure]
    monkeypatch.setattr(job_graph, "execute_runs", score)
    assert call("run", *PART, "--store", tmp_path).code == 1
    assert "no failed runs of planted" in call("retry", *SMALL, "--store", tmp_path, "--estimators", "random").err
    assert call("retry", *SMALL, "--store", tmp_path).code == 0
    assert call("run", *PART, "--store", tmp_path).code == 0


def test_accuracy_of_references_is_printed_once(call, tmp_path, monkeypatch):
    """Two commands shared the references' steps, and each printed all accuracies after each step."""
    work = run_suite.do_steps_on_workers

    def yield_each_event_twice(*given):
        for event in work(*given):
            yield from (event, event)

    monkeypatch.setattr(run_suite, "do_steps_on_workers", yield_each_event_twice)
    words = ("--estimators", "grad", "--protocol", "roar", "--seeds", "1", "--store", tmp_path)
    assert call("run", *SMALL, *words).err.count(" on untouched test images") == 1


@pytest.mark.parametrize(
    ("recipe", "engine", "gpus", "warns"),
    [
        ("quick@2", "local", (), False),
        ("quick@2(compile=true)", "local", (), True),
        ("quick@2(compile=true)", "local", ("0",), False),
        ("quick@2(compile=true)", "ray", (), False),  # other machines of the cluster may have GPUs
    ],
)
def test_run_warns_when_recipe_compiles_without_gpu(recipe, engine, gpus, warns, monkeypatch, capsys):
    monkeypatch.setattr(device_settings, "list_gpu_ids", lambda: gpus)
    _warn_of_missing_compiler(EngineOptions(engine=engine), replace(find_builtin_suite("quick"), recipe=recipe))
    assert ("not compiled" in capsys.readouterr().err) is warns


def test_plan_creates_no_store(call, tmp_path):
    (tmp_path / "empty.sqlite").touch()
    urls = [f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("none", "empty")]
    for where in (("--store", tmp_path / "none"), *(("--db", url) for url in urls)):
        answer = call("plan", "--suite", "planted", *where, "--workers", "4")
        assert (answer.code, "with 4 workers" in answer.out) == (0, True)
        assert answer.out.startswith("planted v1: 62 runs, 0 done, 62 to do\n")
    assert [path.name for path in tmp_path.iterdir()] == ["empty.sqlite"]
    part = record(call, "plan", "--suite", "quick@6", "--protocol", "matched", "--store", tmp_path / "none")
    assert part["runs"] == 3 * (1 + 2 * 3 * 19)  # networks; untouched images; both maps, levels, rows
    assert part["work"]["trainings"] == 3 + 3  # references and common networks


def test_plan_counts_exclude_submissions_of_others(call, store, tmp_path):
    url = make_default_url(store)
    run = next(iter(read_results(url).values())).run
    other = replace(run.cell, estimator="other@12345678", retrain=ScoredNetwork.IMAGES, t=0.5)
    with ResultsStore.open(url) as results:
        results.failures.record_runs_failed_until_retry([replace(run, cell=other)], "died")
    text = " ".join(call("plan", *PART, "--store", store).out.split())
    assert text == f"{TITLE} (tests the installation only): all {RUNS} runs are done"
    plan = record(call, "plan", *SMALL, "--store", store)
    assert (plan["runs"], plan["done"], plan["work"]["trainings"]) == (62, RUNS, 62 - RUNS)
    status = record(call, "status", *SMALL, "--store", store)
    assert (status["done"], status["missing"], status["running"], status["failed"]) == (RUNS, 62 - RUNS, 0, 0)
    assert re.search(rf"all +{RUNS} +0 +{62 - RUNS} +0", call("status", *SMALL, "--store", store).out)
    # a submission adds ten runs to the plan, without a sandbox, a run or a stored submission
    file = tmp_path / "mine.py"
    file.write_text('NAME = "mine"\nDESCRIPTION = "the image"\ndef estimate(m, i, t, g): return i\n')
    plan = record(call, "plan", *PART, "--store", store, "--submission", file)
    assert (plan["runs"], plan["done"], plan["work"]["trainings"]) == (RUNS + 10, RUNS, 10 + 1)  # and the reference
    assert record(call, "plan", *PART, "--store", store)["runs"] == RUNS


def test_table_has_four_formats_with_selected_rows(call, made):
    at, kar = (*SMALL, "--store", made), ("--protocol", "kar")
    styles = ("text", "json", "csv", "markdown")
    text, plain, table, page = (call("table", *at, "--format", style) for style in styles)
    assert {(answer.code, answer.err) for answer in (text, plain, table, page)} == {(0, "")}
    names = {"truth", "random", "truth-inverted"}
    assert {row["estimator"] for row in json.loads(plain.out)["rows"]} == names
    assert {row["estimator"] for row in csv.DictReader(StringIO(table.out))} == names
    assert all(name in text.out and f" {name} |" in page.out for name in names)
    one = record(call, "table", *at, *kar, "--estimators", "truth")
    assert (one["protocol"], [row["estimator"] for row in one["rows"]]) == ("kar", ["truth"])
    assert one["rows"][0]["gain"] is not None  # the gain uses Random, which is not shown
    assert record(call, "table", *at, "--fill", "mean")["fill"] == "mean"


def test_compare_command_matches_gains_of_table(call, made):
    at, kar = (*SMALL, "--store", made), ("--protocol", "kar")
    gains = {row["estimator"]: row["gain"] for row in record(call, "table", *at, *kar)["rows"]}
    found = record(call, "compare", "truth", "random", *at, *kar)
    assert found["protocol"] == "kar" and found["gains"]["truth"]["value"] == gains["truth"]
    assert found["difference"]["points"] == pytest.approx(gains["truth"] - gains["random"])
    assert "truth - random: " in call("compare", "truth", "random", *at).out
    lacking = call("compare", "truth", "truth-inverted", *at)
    assert ": no verdict, because truth-inverted has no gain\n" in lacking.out
    assert lacking.out.rstrip().endswith("Unfinished: 21 of 32 runs are missing; the verdict may change.")
    assert "no row 'nobody'; known: " in read_refusal(call, "compare", "truth", "nobody", *at)


def test_compare_adjusts_p_of_a_column_alone(call, tmp_path):
    """`p_adjusted` of a pair that no column has was the p value that is not adjusted."""
    make_store(tmp_path, SUITE_VERSIONS["quick", 7], images=100)
    found = []
    for pair in (("grad", "gb-sq"), ("grad", "random")):
        asked = ("--suite", "quick@7", "--store", tmp_path, "--protocol", "roar")
        found.append(record(call, "compare", *pair, *asked)["difference"])
    planned, in_column = found
    assert planned["planned"] and planned["p_adjusted"] is None and 0 < planned["p"] <= 1
    assert not in_column["planned"] and in_column["p_adjusted"] >= in_column["p"] > 0


def test_name_of_two_submissions_is_refused_with_their_ids(call, tmp_path):
    """Two versions of a file have the same NAME."""
    both = add_estimators_with_twins(SUITES["planted"], ["mine@12345678", "mine@87654321"])
    make_store(tmp_path, both, lambda point: point.seed == 0, images=20)
    at = ("--suite", "planted", "--store", tmp_path)
    said = "roarbench: 2 submissions here have the name 'mine'; write one of mine@12345678, mine@87654321\n"
    assert read_refusal(call, "compare", "mine", "truth", *at) == said
    assert read_refusal(call, "table", "--estimators", "mine,truth", *at) == said
    assert call("compare", "mine@12345678", "truth", *at).code == 0


def test_commands_name_default_store_first(call, store, tmp_path, monkeypatch):
    assert "chooses another" not in call("run", *PART, "--store", store).err
    monkeypatch.setattr(suites, "user_data_path", lambda name: store)
    told = call("run", *PART, "--store", store).err.splitlines()
    assert told[0] == f"store {store}; --store DIR or ROARBENCH_STORE=DIR chooses another"
    call("export", tmp_path / "all.parquet", "--store", store)
    assert call("import", tmp_path / "all.parquet", "--store", store).err.startswith(told[0])


def test_settings_of_a_command_are_read_once_and_passed_on_whole(call, store, monkeypatch):
    made, used, init = [], [], Settings.__init__

    def count(self, *values, **named):
        made.append(self)
        init(self, *values, **named)

    def load(results, plan, settings):
        used.append(settings)
        return load_from_open_store(results, plan, settings)

    monkeypatch.setattr(Settings, "__init__", count)
    monkeypatch.setattr("roarbench.api.evaluated_rows.load_from_open_store", load)
    for command in (("table", *SMALL, "--estimators", "truth"), ("run", *PART)):
        made.clear()
        used.clear()
        assert call(*command, "--store", store).code == 0
        assert len(made) == 1 and {*used} == {*made}, command
        assert (made[0].store, made[0].limit, made[0].estimators) == (store, 8, ("truth",))


def test_variable_names_database_and_its_absence_is_noticed(call, store, tmp_path, monkeypatch):
    url = f"sqlite:///{(store / 'results.sqlite').rename(tmp_path / 'elsewhere.sqlite')}"
    refused = read_refusal(call, "table", *SMALL, "--store", store)
    assert "no results store at" in refused and "name it with --db URL; `roarbench run" in refused
    assert "--db" not in read_refusal(call, "table", *SMALL, "--store", tmp_path / "none")
    monkeypatch.setenv("ROARBENCH_DB", url)
    assert "no results store at" in read_refusal(call, "table", *SMALL, "--store", store), "it is not the default store"
    monkeypatch.setenv("ROARBENCH_STORE", str(store))
    assert "truth" in call("table", *SMALL, "--store", store).out and "truth" in call("table", *SMALL).out
    assert "no results store at" in read_refusal(call, "table", *SMALL, "--store", tmp_path / "none")
    assert suites.load_suite("planted", limit=8).result().stored.by_estimator
    elsewhere = replace(suites.load_suite("planted").settings, store=tmp_path / "none")
    assert (elsewhere.database, suites.load_suite("planted").settings.database) == ("", url)


def test_run_says_before_training_which_seeds_tables_show(call, store, monkeypatch):
    monkeypatch.setattr(run_suite, "run_suite", Mock(side_effect=RunError("no training in this test")))
    run = ("run", *SMALL, "--store", store, "--seeds")
    told = "--seeds 3: tables of planted v1 show at most 2 seeds; the results of more seeds are stored, and count if"
    assert f"{told} a copy of the file of planted says `seeds = 3`" in call(*run, "3").err
    for words in ((*run, "2"), (*run, "3", "--suite", "planted-corners")):  # the latter trains no networks in its runs
        answer = call(*words)
        assert "no training" in answer.err and "--seeds" not in answer.err


@pytest.mark.slow
def test_toy_command_prints_table_with_chart(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(linear, "run_experiment", partial(linear.run_experiment, draws=2))
    answer = call("toy", "-o", "toy.png")
    assert (answer.code, answer.err) == (0, "drawn: toy.png\n")
    assert "Test accuracy in percent, mean of 2 draws" in answer.out and Path("toy.png").exists()


def test_help_lists_every_command(call):
    answer = call("--help")
    assert answer.code == 0
    assert call("-h") == answer and call("table", "-h") == call("table", "--help")
    assert all(re.search(rf"^  {name} ", answer.out, re.MULTILINE) for name in COMMANDS)
    bare = call()
    assert (bare.code, bare.err, "Usage: roarbench" in bare.out) == (2, "", True)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert call("--version") == (0, f"roarbench {declared}\n", "")
    suites, estimators = call("suites").out, call("estimators").out
    assert all(f"{suite.title}\n" in suites for suite in SUITES.values())
    assert all(f" {name} " in estimators for name in ESTIMATORS) and "VarGrad" in estimators


def test_options_have_types_of_their_annotations(tmp_path, monkeypatch):
    monkeypatch.setenv("ROARBENCH_STORE", str(tmp_path))
    words = "--suite quick --submission a.py --submission b.py --unit pixel --max-images 8 --with quantus --check-files"
    params = COMMANDS["run"].make_context("run", words.split()).params
    assert params["submission"] == (Path("a.py"), Path("b.py")) and params["unit"] is Unit.PIXEL
    assert (params["limit"], params["metrics"], params["check_files"], params["trust"]) == (8, "quantus", True, False)
    assert (params["store"], params["db"], params["data"], params["reference"]) == (tmp_path, "", None, ())


def test_shell_completes_commands_options_and_choices(call, monkeypatch):
    monkeypatch.setenv("_ROARBENCH_COMPLETE", "bash_complete")
    for words, expected in (
        ("ta", "plain,table\n"),
        ("table --fo", "plain,--format\n"),
        ("run --engine r", "plain,ray\n"),
    ):
        monkeypatch.setenv("COMP_WORDS", f"roarbench {words}")
        monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
        assert call() == (0, expected, "")


@pytest.mark.slow
def test_command_help_examples_parse(call):
    for name, command in COMMANDS.items():
        answer = call(name, "--help")
        assert answer.code == 0
        assert max(map(len, answer.out.splitlines())) <= 80, name
        examples = re.findall("`(.*?)`", command.epilog)
        assert examples, name
        for example in examples:
            words = example.split()
            assert words[:2] == ["roarbench", name] and example in " ".join(answer.out.split())
            context = command.make_context(name, words[2:])
            if suite := context.params.get("suite"):
                parse_estimators_option(find_builtin_suite(suite), context.params.get("estimators"))


def test_commands_name_stored_runs_on_other_images(call, tmp_path):
    """Keys depend on the images, and the store has results of the small version only."""
    suite, other = find_builtin_suite("quick@6"), ("--suite", "quick@6", "--store", tmp_path)
    small = list(results(suite, images=20, limit=20).values())[:9]
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        store.add_results(small)
    for words in (("runs",), ("retry",), ("table",), ("compare", "grad", "gb")):
        known = f"roarbench {' '.join(words)} --suite quick@6 --max-images 20 --store {tmp_path} (small version: "
        said = f"this store has no results of quick v6, but others: {known}"
        assert said in read_refusal(call, *words, *other)
    assert call("runs", *other, "--max-images", "20").code == 0
    drawn = tmp_path / "x.html"
    for words in (("table",), ("diagnose",), ("claims",), ("report", "-o", drawn)):
        run = f"`roarbench run --suite planted --store {tmp_path}` computes them"
        assert run in read_refusal(call, *words, "--suite", "planted", "--store", tmp_path)
    assert not drawn.exists()
