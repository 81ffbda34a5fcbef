"""A suite from a TOML file by every command: run, shown, and shown without its file and on another machine."""

import json
import shutil

import pytest

from roarbench.plan.suite_file import read_suite
from tests.helpers.command_line import command
from tests.helpers.own_photos import TEXT, write_suite

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with pictures, the file of a suite, and the finished store."""
    folder = tmp_path_factory.mktemp("own")
    path = write_suite(folder)
    assert command("run", "--suite", path, "--store", folder / "store") == 0
    return folder


@pytest.fixture
def title(made):
    return read_suite(made / "pictures.toml").called


def test_it_is_printed_planned_and_run_by_its_file(call, made, title, tmp_path):
    file = ("--suite", made / "pictures.toml", "--store", made / "store")
    found = json.loads(call("table", *file, "--format", "json").out)
    assert (found["suite"], found["version"]) == tuple(title.split("@"))
    assert {row["estimator"] for row in found["rows"]} == {"random", "sobel", "random-blurred", "grad"}
    again = call("run", *file)
    assert (again.code, f"{title} (tests the installation only): all 5 runs are done" in again.err) == (0, True)
    assert "5 runs, 0 done, 5 to do" in call("plan", *file[:2], "--store", tmp_path).out
    shown = call("suites", made / "pictures.toml").out
    assert shown.startswith(title) and "18 training and 6 test images (drawn by seed 0) of 3 classes, 8 x 8" in shown
    record = call("suites", made / "pictures.toml", "--format", "json").out
    assert json.loads(record)["recipe"]["epochs"] == 1 and str(made) not in record


def test_results_are_shown_and_done_again_without_the_file(call, made, title, tmp_path):
    store = shutil.copytree(made / "store", tmp_path / "store")
    for word in ("status", "table", "validity", "keys", "claims"):
        for name in (title, "pictures"):
            answer = call(word, "--suite", name, "--store", store)
            assert (answer.code, "grad" in answer.out or "5" in answer.out) == (0, True), word
    assert "all 5 runs are done" in call("plan", "--suite", title, "--store", made / "store").out
    keys = json.loads(call("keys", "--suite", title, "--store", store, "--format", "json").out)
    key = next(row["key"] for row in keys if row["estimator"] == "grad")
    assert json.loads(call("show", key, "--store", store, "--format", "json").out)["suites"] == [title]
    answer = call("reproduce", key, "--store", made / "store")
    assert (answer.code, answer.out.startswith("equal:")) == (0, True)
    for name, place, more in (("pictures", tmp_path, ""), ("pictuers", store, "did you mean 'pictur")):
        answer = call("table", "--suite", name, "--store", place)
        assert (answer.code, answer.err.startswith(f"roarbench: no suite '{name}'; {more}")) == (2, True)


def test_results_go_from_store_to_store_with_their_suite_and_onto_the_board(call, made, title, tmp_path):
    other = ("--store", tmp_path / "other")
    assert call("export", tmp_path / "x.parquet", "--store", made / "store").code == 0
    assert str(made).encode() not in (tmp_path / "x.parquet").read_bytes()
    assert call("import", tmp_path / "x.parquet", *other).code == 0
    rows = json.loads(call("table", "--suite", title, *other, "--format", "json").out)["rows"]
    assert all(row["curve"]["0.5"] is not None for row in rows)
    assert call("leaderboard", *other, "--export", tmp_path / "site").code == 0
    assert title in (tmp_path / "site" / "index.html").read_text()


def test_a_network_that_came_with_results_is_not_run_unless_its_hash_is_named(call, tmp_path, monkeypatch):
    network = "from torch import nn\n\n\ndef build(classes, channels, size):\n"
    network += f"    open({str(tmp_path / 'was-run')!r}, 'w').close()\n"
    network += "    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size**2, classes))\n"
    (tmp_path / "net.py").write_text(network)
    path = write_suite(tmp_path, TEXT.replace('"resnet-planted"', '"net.py:build"'))
    assert call("run", "--suite", path, "--store", tmp_path / "first").code == 0
    title, other = read_suite(path).called, ("--store", tmp_path / "other")
    assert call("plan", "--suite", title, "--store", tmp_path / "first").code == 0  # an own file named it
    call("export", tmp_path / "x.parquet", "--store", tmp_path / "first")
    (tmp_path / "was-run").unlink()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "somebody-else"))
    assert call("import", tmp_path / "x.parquet", *other).code == 0
    key = json.loads(call("keys", "--suite", title, *other, "--format", "json").out)[0]["key"]
    data = ("--data", tmp_path / "pictures")
    asked = [(command, "--suite", title) for command in ("plan", "run", "replicate")] + [("reproduce", key)]
    for words in asked:
        answer = call(*words, *other, *data)
        assert (answer.code, answer.err.count("\n"), (tmp_path / "was-run").exists()) == (2, 1, False)
    digest = answer.err.rpartition(" ")[2].strip()
    assert "from torch import nn ¶ def build(classes, channels, size):" in answer.err
    assert (tmp_path / "other" / "imported-networks" / f"{digest}.py").read_text() == network
    assert call(*words, *other, *data, "--trust-network", "0" * 64).code == 2
    assert not (tmp_path / "was-run").exists()
    assert call(*words, *other, *data, "--trust-network", digest).out.startswith("equal:")
    (tmp_path / "was-run").unlink()
    assert call("plan", "--suite", title, *other).code == 2  # naming it once is for one command
