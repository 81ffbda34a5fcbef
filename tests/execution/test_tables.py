"""A run on a bundled table: its rows, and estimators that do not apply to tables."""

import json

import pytest

from leaderboard.live_store import read_views
from leaderboard.pictures import read_pictures
from roarbench.plan.read_suite_file import read_suite
from roarbench.plan.suite import NO_NEIGHBOURS
from tests.helpers.command_line import read_refusal

OWN = """
name = "lab"
about = "a table"
data = {known = "breast-cancer"}
network = {name = "mlp"}
recipe = {like = "tabular@1"}
add_controls = false
protocols = ["morf"]
estimators = ["random", "grad"]
levels = [0.5]
"""
SMALL = ("--suite", "breast-cancer", "--max-images", "60", "--seeds", "1")


@pytest.mark.slow
def test_tabular_suite_fills_every_protocol_and_rejects_neighbour_estimators(call, store, tmp_path):
    """Tables have no pictures of maps either."""
    assert call("run", *SMALL, "--estimators", "grad", "--store", tmp_path).code == 0
    for protocol in ("matched", "augmented", "roar", "roar-exchanged", "mask-only", "morf", "lerf"):
        words = ("table", *SMALL[:4], "--protocol", protocol, "--store", tmp_path)
        found = {row["estimator"]: row["curve"] for row in json.loads(call(*words, "--format", "json").out)["rows"]}
        assert {"random", "grad"} <= set(found)
        assert all(found["grad"][t] > 0 for t in ("0.1", "0.5", "0.9")), protocol
        assert protocol == "mask-only" or found["grad"]["0.0"] > 0.8, protocol  # chance is one in two
    said = " ".join(call(*words, "--notes").out.split())
    assert f"Left out: sobel, random-blurred: {NO_NEIGHBOURS}." in said
    answer = call("run", *SMALL, "--estimators", "ig(baseline=blur)", "--store", tmp_path)
    refused = f"roarbench: suite 'breast-cancer' has no 'ig(baseline=blur)': {NO_NEIGHBOURS}\n"
    assert (answer.code, answer.err) == (2, refused)
    (view,) = read_views(store, tmp_path).values()
    assert read_pictures(view.results, tmp_path) is None


@pytest.mark.slow
def test_edited_suite_names_its_earlier_version(call, tmp_path):
    file, store = tmp_path / "lab.toml", ("--max-images", "60", "--store", tmp_path / "store")
    file.write_text(OWN)
    first = read_suite(file).versioned
    assert call("run", "--suite", file, *store).code == 0
    assert "another version" not in call("table", "--suite", file, *store).err
    file.write_text(OWN.replace("[0.5]", "[0.9]"))
    second = read_suite(file).versioned
    known = f"--suite {first} (another version of lab)\n"
    said = f"roarbench: this store has no results of {second} (small version: 60 images per split), but others: {known}"
    assert read_refusal(call, "table", "--suite", file, *store) == said
    assert call("run", "--suite", file, *store).code == 0
    shown = call("table", "--suite", "lab", *store)
    assert second in shown.out and shown.err == f"this store also has: {known}"
