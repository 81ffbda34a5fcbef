"""The command line within this process: what each command prints, where, and with which exit code."""

import csv
import hashlib
import json
import re
import shlex
import shutil
import sqlite3
import tomllib
from contextlib import closing
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from roarbench.cli import main
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.loading import decode_dataset
from roarbench.datasets.origin import BUNDLED
from roarbench.errors import RunError
from roarbench.execution import jobs, runner
from roarbench.forecast.rates import CORE, TooLarge, assume
from roarbench.plan.choosing import chosen_estimators
from roarbench.plan.points import expand, select
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES, find_suite
from roarbench.protocols.unretrained import MORF
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Retrain
from tests.helpers.command_line import PART, RUNS, SMALL, publish

COMMANDS = sorted(typer.main.get_command(main.app).commands)


def contents(folder: Path) -> dict[str, str]:
    """Checksum of every file but the database's notes beside it."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal", ".lock"))
    }


def count(store: Path) -> int:
    with ResultsStore.open(default_url(store), read_only=True) as results:
        return len(results.keys(""))


# --- run


@pytest.mark.slow
def test_a_suite_without_retraining_ranks_test_images_alone(call, tmp_path, monkeypatch):
    suite = replace(find_suite("planted"), blocks=(Block(MORF, ("truth", "random"), (0.5,), seeds=1),))
    publish(monkeypatch, suite)
    assert call("run", *SMALL, "--store", tmp_path).code == 0
    assert count(tmp_path) == 1 + 2
    assert {path.name for path in tmp_path.rglob("*.arrow")} == {"test.arrow"}


@pytest.mark.slow
def test_run_prints_its_plan_and_progress_beside_the_table(call, tmp_path):
    answer = call("run", *PART, "--store", tmp_path)
    assert answer.code == 0
    assert "planted v1 (small version: 8 images a split)" in answer.out
    assert [line.split()[1] for line in answer.out.splitlines() if re.match(r" +– ", line)].count("random") == 1
    lines = answer.err.splitlines()
    assert lines[0].startswith("planted: 16 images in ")
    assert f"planted v1 (small version: 8 images a split): {RUNS} runs, 0 done, {RUNS} to do" in lines
    assert any("together about" in line and "by a measurement just now" in line for line in lines)
    assert f"results {tmp_path}/results.sqlite; rankings and references {tmp_path}" in lines
    assert count(tmp_path) == RUNS


@pytest.mark.slow
def test_the_controls_come_along_with_what_was_asked_for(made):
    with ResultsStore.open(default_url(made), read_only=True) as results:
        stored = results.results(results.keys(""))
    found = {result.run.cell.estimator for result in stored.values()}
    assert found == {"none", "random", "truth"}


@pytest.mark.slow
def test_a_second_run_does_nothing(call, store):
    before = contents(store)
    answer = call("run", *PART, "--store", store)
    assert answer.code == 0
    assert f"all {RUNS} runs are done" in answer.err
    assert "to do" not in answer.err
    assert contents(store) == before


@pytest.mark.slow
def test_run_goes_on_where_it_stopped(call, store):
    with closing(sqlite3.connect(store / "results.sqlite")) as database, database:
        database.execute("DELETE FROM results WHERE t > 0.6 AND estimator = 'truth'")
    before = call("table", *SMALL, "--store", store, "--format", "json").out
    said = " ".join(call("run", *PART, "--store", store).err.split())  # lines are folded
    assert f": {RUNS} runs, {RUNS - 4} done, 4 to do " in said
    assert count(store) == RUNS
    after = json.loads(call("table", *SMALL, "--store", store, "--format", "json").out)
    assert [row["gain"] for row in json.loads(before)["rows"]] != [row["gain"] for row in after["rows"]]


@pytest.mark.slow
def test_run_prints_json_alone_on_standard_output(call, store):
    answer = call("run", *PART, "--store", store, "--format", "json")
    assert json.loads(answer.out)["rows"][0]["seeds"] == 1
    assert answer.err


@pytest.mark.slow
def test_a_run_that_fails_is_told_and_the_exit_code_is_1(call, tmp_path, monkeypatch):
    score = jobs.score

    def sometimes(explained, judge, run, row):
        if (run.cell.estimator, run.cell.t, run.cell.order) == ("truth", 0.5, "morf"):
            raise RunError("the loss went away")
        return score(explained, judge, run, row)

    monkeypatch.setattr(jobs, "score", sometimes)
    answer = call("run", *PART, "--store", tmp_path)
    assert answer.code == 1
    assert "failed: roar truth t=0.5 scalar seed 0: the loss went away" in answer.err.splitlines()
    assert "failed runs are not tried again until" in answer.err
    rows = {line.split()[1]: line.split() for line in answer.out.splitlines() if "truth" in line or "random" in line}
    assert (rows["random"][2], rows["truth"][2]) == ("0.0", "–")
    found = json.loads(call("status", *SMALL, "--store", tmp_path, "--format", "json").out)
    failure = {"run": "roar truth t=0.5 scalar seed 0", "estimator": "truth", "reason": "the loss went away"}
    assert found["failures"] == [failure]
    assert "the loss went away" in call("status", *SMALL, "--store", tmp_path).out
    monkeypatch.setattr(jobs, "score", score)
    assert call("run", *PART, "--store", tmp_path).code == 1  # nobody has asked for it to be tried again
    assert call("retry", *SMALL, "--store", tmp_path).code == 0
    assert call("run", *PART, "--store", tmp_path).code == 0


def test_runs_without_room_are_left_out_without_a_word_about_retry(call, tmp_path, monkeypatch):
    suite = find_suite("planted")
    rates = replace(assume(suite, CORE), too_large=(TooLarge(suite.recipe, "no room"),))
    monkeypatch.setattr(runner, "measured_rates", lambda engine, suite, work, say: rates)
    answer = call("run", *PART, "--store", tmp_path)
    assert answer.code == 1
    assert " are left out here: no room" in answer.err
    assert "roarbench retry" not in answer.err


@pytest.mark.slow
def test_a_database_elsewhere_is_used_and_named(call, tmp_path):
    url = f"sqlite:///{tmp_path}/elsewhere.db"
    answer = call("run", *PART, "--store", tmp_path / "store", "--db", url)
    assert answer.code == 0
    assert f"results {tmp_path}/elsewhere.db; rankings and references {tmp_path}/store" in answer.err
    assert not (tmp_path / "store/results.sqlite").exists()
    assert call("table", *SMALL, "--db", url).code == 0


def test_a_budget_ends_a_run_within_its_first_round(call, tmp_path):
    words = ("run", *SMALL, "--protocol", "roar", "--store", tmp_path / "store", "--workers", "1")
    answer = call(*words, "--until-decided", "--budget", "0.01s")
    assert answer.code == 0
    lines = answer.err.splitlines()
    assert "; the budget is spent" in next(line for line in lines if "trainings of rows" in line)
    counts = json.loads(call("status", *SMALL, "--store", tmp_path / "store", "--format", "json").out)
    assert counts["done"] < 16  # of the first round


# --- plan and status


def test_a_question_is_answered_by_the_cheapest_way(call, tmp_path):
    words = ("plan", "--question", "beats random", "--store", tmp_path / "store", "--workers", "2")
    answer = call(*words, "--difference", "2.5")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("beats random, by 2.5 points or more\n")
    assert all(len(line) <= 80 for line in answer.out.splitlines()[:-1])
    last = answer.out.splitlines()[-1]
    assert last.startswith("  roarbench run --suite quick-specific --protocol specific --seeds 3")
    found = json.loads(call(*words, "--format", "json").out)
    assert [way["seconds"] for way in found["ways"]] == sorted(way["seconds"] for way in found["ways"])
    assert not (tmp_path / "store").exists()


def test_plan_counts_without_a_store_and_makes_none(call, tmp_path):
    folder = tmp_path / "none"
    answer = call("plan", "--suite", "planted", "--store", folder, "--workers", "4")
    assert answer.code == 0
    assert answer.out.startswith("planted v1: 62 runs, 0 done, 62 to do\n")
    assert "with 4 workers" in answer.out
    assert not folder.exists()


def test_one_protocol_of_a_suite_is_planned_alone(call, tmp_path):
    whole, part = (
        json.loads(call("plan", "--suite", "quick", *words, "--store", tmp_path, "--format", "json").out)
        for words in ((), ("--protocol", "specific"))
    )
    assert part["runs"] == 3 * (1 + 2 * 3 * 8)  # networks; untouched images; both maps, levels, rows
    assert part["work"]["trainings"] == 3 + 3  # references and common networks
    assert part["runs"] < whole["runs"]
    for name, expected in (("best", "no protocol 'best'"), ("kar", "suite 'quick' has no kar; it has: specific, ")):
        refused = call("plan", "--suite", "quick", "--protocol", name, "--store", tmp_path)
        assert refused.code == 2
        assert expected in refused.err
        assert len(refused.err.strip().splitlines()) == 1


def test_plan_counts_from_nothing_on_a_database_that_is_empty(call, tmp_path):
    (tmp_path / "empty.sqlite").touch()
    for name in ("none", "empty"):
        answer = call("plan", "--suite", "planted", "--db", f"sqlite:///{tmp_path}/{name}.sqlite")
        assert answer.code == 0
        assert answer.out.startswith("planted v1: 62 runs, 0 done, 62 to do\n")
    assert not (tmp_path / "none.sqlite").exists()


def test_plan_with_a_folder_counts_what_its_images_still_need(call, tmp_path, store):
    """Results of such images may be there, imported from a store that had them decoded."""
    images = ("--limit", "10", "--data", BUNDLED / "imagenette64")
    found = json.loads(call("plan", "--suite", "quick", *images, "--store", store, "--format", "json").out)
    assert found["work"]["images_decoded"] == 20
    decode_dataset(find_dataset("imagenette64"), store / "data", BUNDLED / "imagenette64", 10)
    found = json.loads(call("plan", "--suite", "quick", *images, "--store", store, "--format", "json").out)
    assert found["work"]["images_decoded"] == 0


def test_a_plan_of_nothing_is_one_line(call, made):
    title = "planted v1 (small version: 8 images a split) (tests the installation only)"
    text = call("plan", *PART, "--store", made).out
    assert " ".join(text.split()) == f"{title}: all {RUNS} runs are done"


def test_plan_counts_what_is_done(call, made):
    found = json.loads(call("plan", *PART, "--store", made, "--format", "json").out)
    assert (found["runs"], found["done"], found["work"]["trainings"]) == (RUNS, RUNS, 0)
    found = json.loads(call("plan", *SMALL, "--store", made, "--format", "json").out)
    assert (found["runs"], found["done"], found["work"]["trainings"]) == (62, RUNS, 62 - RUNS)
    assert set(found["rates"]) > {"decode", "train", "predict", "explain", "rank"}


def test_plan_counts_what_run_would_do(call, made, tmp_path):
    """What others submitted is in the table, and no part of what `run --suite` does."""
    folder = tmp_path / "store"
    title = "planted v1 (small version: 8 images a split) (tests the installation only)"
    shutil.copytree(made, folder)
    with ResultsStore.open(default_url(folder)) as results:
        row = next(iter(results.results(results.keys("")).values()))
        cell = replace(row.run.cell, estimator="other@12345678", retrain=Retrain.IMAGES, t=0.5)
        results.failures.add(replace(row.run, cell=cell), "died")
    assert json.loads(call("status", *PART[:-4], "--store", folder, "--format", "json").out)["failed"] == 0
    done = f"{title}: all {RUNS} runs are done"
    assert " ".join(call("plan", *PART, "--store", folder).out.split()) == done
    assert done in call("run", *PART, "--store", folder).err


def test_a_plan_with_a_submission_is_that_of_its_run(call, made, tmp_path):
    """Ten runs more for each file, which a sandbox would have to be there for; nothing is run and nothing is kept."""
    for name in ("mine", "yours"):
        source = f'NAME = "{name}"\nDESCRIPTION = "the image"\ndef estimate(m, i, t, g): return i\n'
        (tmp_path / f"{name}.py").write_text(source)
    files = [word for name in ("mine", "yours") for word in ("--submission", tmp_path / f"{name}.py")]
    planned = ("plan", *PART, "--store", made, "--format", "json")
    for count, words in ((1, files[:2]), (2, files)):
        found = json.loads(call(*planned, *words).out)
        assert (found["runs"], found["done"]) == (RUNS + 10 * count, RUNS)
        assert found["work"]["trainings"] == 10 * count + 1  # and the reference
        assert (found["work"]["images_submitted"], found["estimates"][0]["parts"]["submission"]) == (16 * count, None)
    assert json.loads(call(*planned, "--estimators", "truth-inverted").out)["runs"] > RUNS  # beside PART
    again = json.loads(call("plan", *PART, "--store", made, "--format", "json").out)
    assert (again["runs"], again["done"]) == (RUNS, RUNS)
    assert call("plan", *PART, "--store", made, "--trust-submission").code == 2
    refused = call(*planned, "--submission", tmp_path / "none.py", *files)
    assert (refused.code, refused.err.count("none.py"), len(refused.err.splitlines())) == (2, 1, 1)


def test_status_counts(call, made):
    found = json.loads(call("status", *SMALL, "--store", made, "--format", "json").out)
    assert (found["done"], found["missing"], found["running"], found["failed"]) == (RUNS, 62 - RUNS, 0, 0)
    assert found["protocols"]["kar"]["done"] == 10
    text = call("status", *SMALL, "--store", made).out
    assert re.search(rf"all +{RUNS} +0 +{62 - RUNS} +0", text)


# --- table and plot


def test_table_in_four_formats(call, made):
    text, plain, table, page = (
        call("table", *SMALL, "--store", made, "--format", style) for style in ("text", "json", "csv", "markdown")
    )
    assert {answer.code for answer in (text, plain, table, page)} == {0}
    assert {answer.err for answer in (text, plain, table, page)} == {""}
    names = {row["estimator"] for row in json.loads(plain.out)["rows"]}
    assert names == {"truth", "random", "truth-inverted"}
    assert {row["estimator"] for row in csv.DictReader(StringIO(table.out))} == names
    for name in names:
        assert name in text.out
        assert f" {name} |" in page.out


def test_table_of_another_protocol_and_of_some_rows(call, made):
    answer = call("table", *SMALL, "--store", made, "--protocol", "kar", "--estimators", "truth", "--format", "json")
    found = json.loads(answer.out)
    assert (found["protocol"], [row["estimator"] for row in found["rows"]]) == ("kar", ["truth"])
    assert found["rows"][0]["gain"] is not None  # Random is read though it is not shown


def test_the_whole_and_the_small_version_are_apart(call, made):
    answer = call("table", "--suite", "planted", "--store", made, "--format", "json")
    found = json.loads(answer.out)
    assert (found["limit"], found["images"], {row["gain"] for row in found["rows"]}) == (None, 0, {None})


@pytest.mark.parametrize("words", [("table",), ("status",), ("validity",)])
def test_what_the_store_has_instead_is_told(call, made, words):
    assert call(*words, *SMALL, "--store", made).err == ""
    answer = call(*words, "--suite", "planted", "--store", made)
    assert answer.code == 0
    shown = f"roarbench {words[0]} --suite planted --limit 8 --store {made} (small version: 8 images a split)"
    assert answer.err == f"nothing of planted v1 is in this store, but: {shown}\n"
    assert call(*words, "--suite", "quick", "--store", made).err == ""  # nor of any other version


@pytest.mark.slow
@pytest.mark.parametrize("ending, start", [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_plot_draws_each_format(call, made, tmp_path, ending, start):
    path = tmp_path / f"curves.{ending}"
    answer = call("plot", *SMALL, "--store", made, "-o", path)
    assert (answer.code, answer.out, answer.err) == (0, "", f"drawn: {path}\n")
    assert path.read_bytes().startswith(start)


# --- the other commands


def test_suites_and_estimators(call):
    assert [row["suite"] for row in json.loads(call("suites", "--format", "json").out)] == list(SUITES)
    assert "quick v2" in call("suites").out
    assert {"random", "grad", "truth"} < {
        row["estimator"] for row in json.loads(call("estimators", "--format", "json").out)
    }
    assert "VarGrad" in call("estimators").out


@pytest.mark.slow
def test_doctor(call, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody answers there
    assert "processor" in call("doctor", "--store", tmp_path).out
    assert {row["what"] for row in json.loads(call("doctor", "--format", "json").out)} > {"processor", "store"}


@pytest.mark.slow
def test_toy(call, tmp_path):
    answer = call("toy", "-o", tmp_path / "toy.png", "--format", "json")
    assert answer.code == 0
    assert json.loads(answer.out)
    assert answer.err == f"drawn: {tmp_path}/toy.png\n"
    assert (tmp_path / "toy.png").exists()


# --- help


def test_help_lists_every_command(call):
    answer = call("--help")
    assert answer.code == 0
    assert call("-h") == answer
    assert call("table", "-h") == call("table", "--help")
    assert all(re.search(rf"^│ {name} ", answer.out, re.MULTILINE) for name in COMMANDS)
    assert set(COMMANDS) >= {"run", "plan", "status", "table", "plot", "toy", "suites", "estimators", "doctor"}


def test_the_version_is_that_of_the_package(call):
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["version"]
    assert call("--version") == (0, f"roarbench {declared}\n", "")


def test_no_command_gives_the_help(call):
    answer = call()
    assert (answer.code, answer.err) == (2, "")
    assert "Usage: roarbench" in answer.out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_has_an_example_that_can_be_typed(call, name):
    answer = call(name, "--help")
    assert answer.code == 0
    assert max(map(len, answer.out.splitlines())) <= 80
    command = typer.main.get_command(main.app).commands[name]
    examples = re.findall("`(.*?)`", command.epilog)
    assert examples
    for example in examples:
        words = example.split()
        assert words[:2] == ["roarbench", name]
        assert example in " ".join(answer.out.split())
        context = command.make_context(name, words[2:])
        if suite := context.params.get("suite"):
            chosen_estimators(find_suite(suite), context.params.get("estimators"))


STORED = {"--store", "--db"}
IMAGES = {"--data", "--reference", "--limit", "--format"}
FLAGS = {  # that scripts rely on
    "run": {
        *("--suite", "--estimators", "--submission", "--seeds", "--engine", "--workers"),
        *("--until-decided", "--difference", "--budget", *STORED, *IMAGES),
    },
    "plan": {"--suite", "--submission", "--question", "--difference", *STORED, *IMAGES},
    "status": {"--suite", *STORED, *IMAGES},
    "table": {"--suite", *STORED, *IMAGES},
    "validity": {"--suite", *STORED, *IMAGES},
    "plot": {"--suite", "-o", *STORED, *IMAGES - {"--format"}},
    "claims": {*STORED, *IMAGES},
    "reproduce": {"--data", "--reference", *STORED},
    "export": STORED,
    "import": STORED,
    "leaderboard": {"--export", "--data", "--reference", *STORED},
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_command_keeps_its_flags(name):
    command = typer.main.get_command(main.app).commands[name]
    assert {word for option in command.params for word in option.opts} >= FLAGS[name]


# --- bad input: one line, exit code 2, nothing lost


BAD = [
    (("run", "--suite", "quikc"), "no suite 'quikc'; did you mean 'quick'? (list: roarbench suites)"),
    (("run", *SMALL, "--estimators", "grda"), "no estimator 'grda'; did you mean 'grad'? (list: roarbench estimators)"),
    (
        ("run", *SMALL, "--estimators", "truth,grad"),
        "suite 'planted' has no 'grad'; it has: truth, random, truth-inverted",
    ),
    (("run", "--suite", "planted", "--limit", "3"), "--limit 3 is below the 4 classes of planted; write 4 or more"),
    (("plan",), "Missing option '--suite', or '--question \"beats random\"' for the cheapest way to that"),
    (("plan", "--question", "is it good"), "no question 'is it good'; it can be: 'beats random'"),
    (("plan", *SMALL, "--difference", "2"), '--difference says what has to be found; add --question "beats random"'),
    (
        ("plan", "--question", "beats random", "--seeds", "2"),
        "--question finds protocol, rows and seeds itself; leave --seeds out",
    ),
    (
        ("plan", "--question", "beats random", "--difference", "-1"),
        "--difference is -1; write accuracy points above 0 and below 100, such as 2.5",
    ),
    (("run", *SMALL, "--seeds", "0"), "Invalid value for '--seeds'"),
    (
        ("run", *SMALL, "--until-decided", "--budget", "soon"),
        "--budget is 'soon'; write a time such as 2h, 90m or 1h30m",
    ),
    (
        ("run", *SMALL, "--budget", "2h"),
        "--difference and --budget say when a course ends; add --until-decided",
    ),
    (
        ("run", *SMALL, "--until-decided", "--difference", "0"),
        "--difference is 0; write accuracy points above 0 and below 100, such as 2.5",
    ),
    (("run", *SMALL, "--workers", "0"), "Invalid value for '--workers'"),
    (("run", *SMALL, "--seeds", "1001"), "Invalid value for '--seeds'"),
    (("plan", *SMALL, "--seeds", "1000000000"), "Invalid value for '--seeds'"),
    (("run", *SMALL, "--workers", "4096"), "--workers 4096 is more than 4 for each core of this machine; write "),
    (("reproduce", "1a2b", "--workers", "4096"), "--workers 4096 is more than 4 for each core of this machine; write "),
    (("plan", *SMALL, "--workers", "100000"), "Invalid value for '--workers'"),
    (("table", "--suite", "planted", "--limit", "1000000000"), "Invalid value for '--limit'"),
    (("run", "--suite", "planted", "--limit", "2001"), "--limit 2001 is above the 2,000 images that a split of"),
    (("plan", "--suite", "planted", "--limit", "2001"), "--limit 2001 is above the 2,000 images that a split of"),
    (("leaderboard", "--port", "65536"), "Invalid value for '--port'"),
    (("run", *SMALL, "--engine", "moon"), "Invalid value for '--engine'"),
    (("run", *SMALL, "--reference", ""), "there is an empty value after --reference; write one, or leave the option"),
    (("run", *SMALL, "--reference="), "there is an empty value after --reference="),
    (("reproduce", ""), "there is an empty value after reproduce"),
    (("table", *SMALL, "--store", "\udcff"), "'?' cannot be read as utf-8; write a name that can"),
    (("run", *SMALL, "--reference", "two\nlines\x1b[2J"), "--reference two lines [2J is no file"),
    (("run", *SMALL, "--data", "."), "planted is generated and reads no files; leave --data out"),
    (("run", "--suite", "imagenette64", "--data", "/nowhere"), "--data /nowhere is missing; expected a folder"),
    (("plan", "--suite", "imagenette64", "--data", "/nowhere"), "--data /nowhere is missing; expected a folder"),
    (("plan", "--suite", "imagenette64", "--data", "."), "expected parquet files in the layout of"),
    (("plan", *SMALL, "--data", "."), "planted is generated and reads no files; leave --data out"),
    (("plan", "--suite", "planted", "--limit", "3"), "--limit 3 is below the 4 classes of planted; write 4 or more"),
    (("plan", "--suite", "quikc"), "no suite 'quikc'"),
    (("table", "--suite", "quikc"), "no suite 'quikc'"),
    (("table", *SMALL, "--protocol", "raor"), "no protocol 'raor'; did you mean 'roar'?"),
    (("table", *SMALL, "--protocol", "morf"), "suite 'planted' has no morf with unit scalar; it has: roar (scalar)"),
    (("table", *SMALL, "--unit", "pixel"), "suite 'planted' has no roar with unit pixel"),
    (("table", *SMALL, "--unit", "voxel"), "Invalid value for '--unit'"),
    (("table", *SMALL, "--format", "yaml"), "Invalid value for '--format'"),
    (("table", *SMALL, "--limit", "0"), "Invalid value for '--limit'"),
    (("table", *SMALL, "--limit", "30%"), "Invalid value for '--limit'"),
    (("table", *SMALL, "--estimators", "grad"), "suite 'planted' has no 'grad'"),
    (("table", "--suite", "quick@1", "--protocol", "kar", "--estimators", "ig~blurred"), "has no kar of ig~blurred"),
    (("table", *SMALL, "--db", "junk"), "the database URL cannot be read; write sqlite:///PATH or postgresql://"),
    (("table", *SMALL, "--db", "mysql://me:secret@host/name"), "no results store in 'mysql'; write sqlite:///PATH"),
    (("table", *SMALL, "--levels", "30"), "No such option: --levels"),
    (("table",), "Missing option '--suite'"),
    (("run", "quick", "--limit", "4"), "(did you mean roarbench run --suite quick --limit 4?)"),
    (("claims", "quick"), "(did you mean roarbench claims --suite quick?)"),
    (("tabel", *SMALL), "No such command 'tabel'. Did you mean 'table'?"),
    (("plot", *SMALL, "-o", "x.gif"), "cannot draw 'x.gif': a picture is .png, .svg or .pdf; write x.png"),
    (("plot", *SMALL, "-o", "/nowhere/x.png"), "cannot write /nowhere/x.png: No such file or directory"),
    (("plot", *SMALL, "-o", "x.png", "--published", "mnist"), "no published data set 'mnist'"),
    (("plot", "--suite", "quick", "-o", "x.png"), "nothing to draw: no curve has a finished point"),
    (("plot", *SMALL), "Missing option '-o'"),
    (
        ("plot", "--suite", "planted", "-o", "x.png"),
        "nothing of planted v1 is in this store, but: roarbench plot --suite",
    ),
    (("table", *SMALL, "--estimators", " , "), "--estimators ' , ' names none; write ids with commas between"),
    (("table", *SMALL, "--store", "x" * 5000), f"{'x' * 100}"),
    (("export", "x.xlsx"), "cannot write 'x.xlsx': an export is .parquet, which `roarbench import` reads, or .csv"),
    (("export", "x"), "; write x.parquet"),
    (("export", "/nowhere/x.csv"), "cannot write /nowhere/x.csv: there is no folder /nowhere; make it"),
]


@pytest.mark.parametrize("words, message", BAD, ids=[" ".join(words)[:90] for words, _ in BAD])
def test_a_mistake_is_one_line_and_nothing_changes(call, made, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROARBENCH_STORE", str(made))
    before = contents(made)
    answer = call(*words)
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.splitlines()
    assert line.startswith("roarbench: ")
    assert message in line
    assert len(line) < 1000
    assert "secret" not in line
    assert contents(made) == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/nowhere/x.png", "x.gif"])
def test_a_toy_that_cannot_be_drawn(call, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = call("toy", "-o", path)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_commands_that_a_run_proposes_work_as_they_stand(call, made, tmp_path, monkeypatch):
    folder = tmp_path / "a store's"
    shutil.copytree(made, folder)
    monkeypatch.chdir(tmp_path)
    first, *lines = call("run", *PART, "--store", folder).err.partition("next:\n")[2].splitlines()
    words = [shlex.split(line) for line in (first, *lines)]
    assert [line[:2] for line in words] == [["roarbench", name] for name in ("table", "validity", "plot", "status")]
    for _, *line in words:
        assert call(*line).code == 0
    assert (tmp_path / "planted.png").exists()


@pytest.mark.parametrize("command", [("table",), ("status",), ("plot", "-o", "x.png"), ("validity",)])
def test_reading_a_store_that_is_not_there(call, command, tmp_path):
    answer = call(*command, *SMALL, "--store", tmp_path / "none")
    assert answer.code == 2
    run = f"roarbench run --suite planted --store {tmp_path}/none --limit 8"
    assert answer.err == f"roarbench: no results store at {tmp_path}/none/results.sqlite; `{run}` makes one\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "damage"),
    [("run", "newer"), ("plan", "a folder"), ("status", "no database"), ("table", "newer"), ("run", "no database")],
)
def test_a_store_that_cannot_be_used_is_left_alone(call, store, command, damage):
    path = store / "results.sqlite"
    if damage == "newer":
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE roarbench_version SET version_num = '0042'")
    else:
        path.unlink()
        path.write_text("my thesis") if damage == "no database" else path.mkdir()
    before = contents(store)
    answer = call(command, *SMALL, "--store", store)
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.splitlines()
    expected = {"newer": "schema 0042", "no database": "this is no SQLite database", "a folder": "Is a directory"}
    assert expected[damage] in line
    assert contents(store) == before


def test_a_store_that_is_a_file(call, tmp_path):
    (tmp_path / "file").write_text("my thesis")
    answer = call("run", *SMALL, "--store", tmp_path / "file")
    assert answer.code == 2
    assert len(answer.err.splitlines()) == 1
    assert (tmp_path / "file").read_text() == "my thesis"


def test_images_with_other_columns(call, tmp_path):
    for split in ("train", "validation"):
        rows = pa.table({"picture": [b"", b""], "class": [0, 1]})
        (tmp_path / "data").mkdir(exist_ok=True)
        pq.write_table(rows, tmp_path / f"data/{split}-00000-of-00001.parquet")
    answer = call("run", "--suite", "quick", "--data", tmp_path / "data", "--store", tmp_path / "store")
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.splitlines()
    assert "has the columns picture, class; expected 'image' and 'label'" in line


def test_the_suite_that_is_run_is_the_one_that_is_planned():
    """The numbers that these tests count with."""
    assert len(expand(select(find_suite("planted"), ["random", "truth"], seeds=1))) == RUNS
