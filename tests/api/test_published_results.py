"""Published results as Python loads them."""

import hashlib
import re
import shutil
import tomllib
from dataclasses import replace
from operator import attrgetter
from types import SimpleNamespace

import pytest

import roarbench
from roarbench.api import all_results, published_results
from roarbench.api.all_results import collect_published_results
from roarbench.common.enums import Order, ScoredNetwork
from roarbench.common.errors import StoreError
from roarbench.store import published_rows
from roarbench.store.export_and_import import ExportedFile
from roarbench.store.published_folder import PublishedFile, read_index_and_check_folder
from roarbench.store.published_rows import read_published_rows
from tests.helpers.made_up_results import MAIN, make_suite_results
from tests.helpers.older_suites import older_suites
from tests.helpers.processes import ROOT
from tests.helpers.store_rows import has_values, remove_rows, set_checksums

GET_READ_FIELDS = attrgetter("run", "correct", "total", "bits", "rankings", "weights")
GET_KEY = attrgetter("run.key")
slow = pytest.mark.slow


def read_rows_by_key(path, sha256):
    """Read the published rows of the first three seeds; check that they are stored by their own cell and seed."""
    by_cell = read_published_rows(path, sha256, range(3), ()).results
    rows = [(cell, seed, row) for cell, by_seed in by_cell.items() for seed, row in by_seed.items()]
    assert all((row.run.cell, row.run.seed) == (cell, seed) for cell, seed, row in rows)
    return sorted((row for _, _, row in rows), key=GET_KEY)


def publish_only(monkeypatch, pattern):
    """Let the published files be those whose path matches a pattern."""
    files = [file for file in read_index_and_check_folder(ROOT / "results") if re.match(pattern, file.path)]
    assert files
    for module in (published_results, all_results):
        monkeypatch.setattr(module, "read_index_and_check_folder", lambda folder: files)


@slow
def test_load_published_results_joins_files_of_suite():
    frame = roarbench.load_published_results("quick-matched").to_dataframe().set_index("name")
    assert frame.attrs["suite"] == "quick-matched" and len(frame) == 17
    assert frame.loc["ig(baseline=mean)", "gain"] == pytest.approx(22.0, abs=0.05)  # the number of README.md
    assert frame["beats_controls"].fillna(False).sum() == 1
    assert len(list((ROOT / "results" / "quick-matched" / "3").glob("*.parquet"))) > 1


@slow
def test_compare_uses_protocols_run_for_both_rows():
    """IG from black has no ROAR in `quick` 7; README.md has ROAR gains of 0.0 and -4.1 points for the last two."""
    found = roarbench.load_published_results("quick@7")
    assert str(found).count("All rows are self-reported") == 1 and "(!)" not in str(found)
    assert str(found).count("†") == 3 + 1 and str(found).count(" better (!!) ") == 1  # with the notes' signs
    with pytest.raises(roarbench.CallerError, match="roar is not run for both ig"):
        found.compare("ig", "grad", "roar")
    assert found.compare("ig", "grad").roar is None
    own = found.compare("gb-sq", "grad", "own-network")
    assert own.low < own.points < own.high and own.planned
    assert (own.verdict == "not significantly different") == (own.low <= 0 <= own.high)
    assert found.compare("gb-sq", "grad").roar.points == pytest.approx(0.0 + 4.1, abs=0.1)


def test_load_published_results_returns_newest_published_version(monkeypatch):
    published = [
        PublishedFile(f"quick/{version}/{name}.parquet", "0" * 64, 1, "", replication)
        for version in (2, 6)
        for name, replication in (("not-read", 1), ("a", 0))
    ]
    monkeypatch.setattr(published_results, "read_index_and_check_folder", lambda folder: published)
    for name, version in (("quick", 6), ("quick@2", 2)):  # the next version has no published rows
        with older_suites(), pytest.raises(StoreError, match=f"cannot read .*results/quick/{version}/a.parquet"):
            roarbench.load_published_results(name)
    with pytest.raises(roarbench.CallerError, match="no published suite 'cifar10@.*known: quick@2"):
        roarbench.load_published_results("cifar10")


@slow
def test_published_suite_without_roar_shows_own_network_gain(monkeypatch):
    """The combined table would begin with ROAR."""
    publish_only(monkeypatch, "benchmark-fashion-mnist/1/(?!roar-)")
    found = roarbench.load_published_results("benchmark-fashion-mnist")
    assert "Own-network gain" in str(found) and "runs are done" not in str(found)
    with pytest.raises(roarbench.CallerError, match="no roar results of benchmark-fashion-mnist v1 are published"):
        found.to_dataframe("roar")


@slow
def test_load_published_results_finds_user_suite_by_name():
    """The file of rows contains the suite, whose version is a hash; the three networks are EfficientNet-Lite 0 to 2."""
    found = roarbench.load_published_results("benchmark-imagenet")
    assert found.plan.version == "5a187511" and len(found.plan.networks) == 3
    frame = found.to_dataframe("own-network").set_index("estimator")["gain"]
    assert frame["ig(baseline=mean)"] > 0 == frame["random"]
    file = ROOT / "results" / "benchmark-imagenet" / "5a187511" / "efficientnet-lite-1.parquet"
    again = roarbench.load_published_results("benchmark-imagenet@5a187511", file)
    without_searches = frame[~frame.index.str.startswith("search")]
    assert again.to_dataframe("own-network").set_index("estimator")["gain"].equals(without_searches)
    assert len(frame) == len(without_searches) + 4
    with pytest.raises(roarbench.CallerError, match="no suite 'benchmark-imagenet@00000000'"):
        roarbench.load_published_results("benchmark-imagenet@00000000")


@slow
def test_published_gains_use_only_published_levels():
    """A file of CIFAR-10 has ROAR at .9, Imagenette all levels."""
    found = roarbench.load_published_results("benchmark-cifar10", ROOT / "studies/paper/cifar10-roar-xeon.parquet")
    assert found.table("roar").board.levels == (found | found).table("roar").board.levels == (0.9,)
    published = roarbench.load_published_results("benchmark-cifar10")
    assert published.stored.data.startswith("b91c5f97")  # a copy with JPEG files, whose fingerprint no suite names
    assert published.table("roar").board.levels == published.table("kar").board.levels == (0.1, 0.5, 0.9)
    assert "accuracy curve and the row's, t = 0.1, 0.5, 0.9." in str(published)
    whole = roarbench.load_published_results("benchmark-imagenette64")
    assert whole.table("roar").board.levels == (0.1, 0.3, 0.5, 0.7, 0.9)
    for name in ("kar", "matched", "morf", "mask-only"):  # as docs/python.md says
        frame = whole.to_dataframe(name)
        assert frame.attrs["protocol"] == name and {"random", "grad"} <= set(frame["estimator"])


@slow
def test_load_all_results_joins_frames_of_suites(monkeypatch):
    publish_only(monkeypatch, "(benchmark-breast-cancer/1|quick/7|benchmark-fashion-mnist/1/(roar|kar))")
    frame = roarbench.load_all_results()
    assert [*frame.columns[:6]] == ["suite", "version", "dataset", "network", "question", "estimator"]
    kinds = [frame[name].dtype.kind for name in ("gain", "gain_low", "gain_high", "control", "submission")]
    assert kinds == ["f", "f", "f", "b", "b"] and not frame["gain"].isna().any()
    rows = frame[frame["suite"] == "benchmark-fashion-mnist"].groupby("question").size()
    assert rows.to_dict() == {"roar": 23, "kar": 21, "diffroar": 21}
    versions = dict(zip(frame["suite"], frame["version"], strict=True))
    assert versions == {"benchmark-breast-cancer": "1", "benchmark-fashion-mnist": "1", "quick": "7"}


@slow
@pytest.mark.parametrize(
    "files", ["quick-matched/", "benchmark-imagenet/", "benchmark-fashion-mnist/1/(roar|kar)", "benchmark-digits/"]
)
def test_results_without_store_equal_those_of_a_store(monkeypatch, files):
    """The first has submissions, the second is a user's suite, the third lacks levels, the last has replications."""
    publish_only(monkeypatch, files)
    everything = [replace(file, first_replication=0) for file in published_results.read_index_and_check_folder(ROOT)]
    monkeypatch.setattr(published_results, "read_index_and_check_folder", lambda folder: everything)
    frame, stored = roarbench.load_all_results(), roarbench.load_published_results(files.partition("/")[0])
    for protocol in stored.stored.list_started_protocols():
        expected = stored.to_dataframe(protocol.name) if protocol.gain_name else None
        if expected is None:  # mask-only
            assert protocol.name not in {*frame["question"]}
            continue
        rows, known = frame[frame["question"] == protocol.name], expected[expected["gain"].notna()]
        for column in ("estimator", "gain", "gain_low", "gain_high", "seeds"):
            assert rows[column].tolist() == pytest.approx(known[column].tolist(), abs=1e-9, nan_ok=True)
        assert rows["verdict"].fillna("").tolist() == known["verdict"].fillna("").tolist()
        assert {*rows["levels"]} <= {", ".join(f"{t:g}" for t in expected.attrs["levels"])}
        assert {*rows["unit"]} <= {expected.attrs["unit"]}


def test_changed_published_file_raises_error(tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(ROOT / "results" / "quick-matched", folder / "quick-matched")
    file = next(file for file in read_index_and_check_folder(ROOT / "results") if "half-images" in file.path)
    assert len(collect_published_results(folder, "quick-matched@3", [file]).results) == file.rows
    with (folder / file.path).open("ab") as end:
        end.write(b"0")
    with pytest.raises(StoreError, match=r"half-images-.*has the SHA-256 .*, expected .* as in the index"):
        collect_published_results(folder, "quick-matched@3", [file])


def test_rows_are_those_whose_hash_was_checked(tmp_path, monkeypatch):
    """A user may replace a file between the check of its hash and the reading of its rows."""
    published = next(file for file in read_index_and_check_folder(ROOT / "results") if "half-images" in file.path)
    path = tmp_path / "rows.parquet"
    path.write_bytes((ROOT / "results" / published.path).read_bytes())
    expected = [*map(GET_READ_FIELDS, read_rows_by_key(path, published.sha256))]

    def hash_and_overwrite(content):
        found = hashlib.sha256(content)
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
        return found

    monkeypatch.setattr(published_rows, "hashlib", SimpleNamespace(sha256=hash_and_overwrite))
    assert [*map(GET_READ_FIELDS, read_rows_by_key(path, published.sha256))] == expected


@pytest.mark.parametrize("name", ["quick/7/roarbench", "benchmark-imagenet/5a187511/efficientnet-lite-1"])
def test_published_rows_equal_those_that_an_import_checks(name):
    """One file has training runs, the other a user's suite with given weights."""
    file = next(file for file in read_index_and_check_folder(ROOT / "results") if name in file.path)
    path = ROOT / "results" / file.path
    rows, exported = read_rows_by_key(path, file.sha256), ExportedFile(path).read_results()
    expected = sorted((result for result in exported if result.run.seed < 3), key=GET_KEY)
    assert [*map(GET_READ_FIELDS, rows)] == [*map(GET_READ_FIELDS, expected)] and 0 < len(rows) < file.rows
    assert [result.run.key for result in rows] == [result.run.key for result in expected]
    assert not any(hasattr(rows[0], name) for name in ("seconds", "created", "provenance"))
    assert rows[0].run.limit is None and replace(rows[0].run, seed=9) == replace(expected[0].run, seed=9)


def test_load_all_results_counts_rows_without_gain_by_reason(monkeypatch):
    without_random = remove_rows(make_suite_results(), estimator="random", order=Order.LERF)

    def rankings(point):
        return "other" if has_values(point, estimator="grad", retrain=ScoredNetwork.IMAGES, seed=1) else "usual"

    results = set_checksums(without_random, rankings=rankings)
    file = PublishedFile("made-up/1/all.parquet", "", 0, "")
    monkeypatch.setattr(all_results, "read_index_and_check_folder", lambda folder: [file])
    monkeypatch.setattr(all_results, "collect_published_results", lambda folder, title, files: results)
    frame = roarbench.load_all_results()
    left_out = [f"made-up, {name}: {len(MAIN)} rows: incomplete" for name in ("kar", "lerf")]
    reason = "made from 2 different rankings; compute the row again in a new --store"
    left_out += [f"made-up, {name}: 1 row: {reason}" for name in ("roar", "diffroar")]
    assert {*frame.attrs["left_out"]} == {*left_out, "made-up, diffroar: 1 row: incomplete"}
    assert {*frame["question"]} == {"roar", "morf", "diffroar"}


def test_load_all_results_shows_progress_on_a_terminal_after_a_second(monkeypatch, capsys):
    files = [PublishedFile(f"{name}/1/all.parquet", "", 0, "") for name in ("made-up", "other", "third")]
    moments = iter([0.0, 0.9, 1.1, 1.2])
    monkeypatch.setattr(all_results, "read_index_and_check_folder", lambda folder: files)
    monkeypatch.setattr(all_results, "collect_published_results", lambda folder, title, files: make_suite_results())
    monkeypatch.setattr(all_results.time, "monotonic", lambda: next(moments, 2.0))
    roarbench.load_all_results()
    assert capsys.readouterr() == ("", "")
    moments = iter([0.0, 0.9, 1.1, 1.2])
    monkeypatch.setattr(all_results.sys.stderr, "isatty", lambda: True)
    roarbench.load_all_results()
    last = "reading published results: suite 3 of 3"
    assert capsys.readouterr() == ("", f"\r{last.replace('3 of', '2 of')}\r{last}\r{' ' * len(last)}\r")


def test_files_of_replications_are_not_read():
    """A replication's rows are in no table of the suite; their index entries say which files have these rows alone."""
    named = [file for file in read_index_and_check_folder(ROOT / "results") if "replication" in file.path]
    assert len(named) == 6 and {file.first_replication for file in named} == {1}
    missing = ROOT / "there is no such folder"
    assert collect_published_results(missing, "benchmark-digits@1", named).results == {}


def test_package_data_lists_every_results_file():
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    paths = [path for globs in setup.values() for glob in globs for path in ROOT.glob(glob)]
    results = ROOT / "results"
    rows = {results / file.path for file in read_index_and_check_folder(results)}
    networks = {*(results / "networks").iterdir()}
    assert networks and {*paths} == {results / "index.json", *rows, *networks, *results.rglob("suite.toml")}


@slow
def test_readme_answers_its_question_with_published_results():
    rows = roarbench.load_all_results().query("suite == 'benchmark-imagenette64'").set_index("estimator")
    roar, own = (rows[rows["question"] == question] for question in ("roar", "own-network"))
    answer = (ROOT / "README.md").read_text("utf-8").split("\n\n")[1]
    assert "the first pixels of VarGrad and SmoothGrad-Squared more than random pixels" in answer
    assert [*roar.loc[["var-grad", "sgsq-grad", "grad"], "verdict"]] == ["better", "better", "worse"]
    assert "Blurred noise, which sees no network, does as well" in answer
    assert roar["gain"].idxmax() == "random-blurred"
    assert (
        "Only two of ten estimators, input x gradient and squared guided backprop, are shown to explain *this*"
        in answer
    )
    estimators = own[~own["control"]]
    assert estimators["gain"].idxmax() == "input-x-grad"
    assert own.loc["input-x-grad", "verdict"] == "explains its network"
    quick = roarbench.load_published_results("quick").to_dataframe("own-network").set_index("estimator")
    explaining = quick[quick["verdict"] == "explains its network"]  # also above a blind search
    assert [*explaining.index] == ["input-x-grad", "gb-sq"] and set(quick["verdict"]) == {
        *("explains its network", "no more than a search", "not shown", "control", "0 by construction")
    }
    searches = quick.index.str.startswith("search")
    assert {*quick.loc[searches, "verdict"]} == {"control"}
    assert (~searches & (quick["verdict"] != "0 by construction")).sum() == 10
    page = (ROOT / "README.md").read_text("utf-8")
    assert "At 90 %, `input-x-grad` is worse than Random (-1.8), over five levels better (+2.6)" in page
    assert roar.loc["input-x-grad", "verdict"] == "better" and round(roar.loc["input-x-grad", "gain"], 1) == 2.6
    alone = roarbench.load_published_results("quick@7").to_dataframe("roar").set_index("estimator")
    assert alone.loc["input-x-grad", "verdict"] == "worse" and round(alone.loc["input-x-grad", "gain"], 1) == -1.8
