"""A run on a bundled table: its rows, and estimators that do not apply to tables."""

import json

import pytest

from leaderboard.live_store import read_views
from leaderboard.pictures import read_pictures
from roarbench.plan.suite import NO_NEIGHBOURS

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
