"""A bundled table from the command to its rows: what stands there, what is left out, and with which words."""

import json

import pytest

from leaderboard.pictures import read_pictures
from leaderboard.views import read_views
from roarbench.plan.suite import NO_NEIGHBOURS
from roarbench.store.results import ResultsStore, make_default_url

SMALL = ("--suite", "breast-cancer", "--max-images", "60", "--seeds", "1")


@pytest.mark.slow
def test_every_protocol_has_its_rows_which_say_what_is_left_out_and_are_no_pictures(call, tmp_path):
    """Of a small version of the suite with one estimator."""
    assert call("run", *SMALL, "--estimators", "grad", "--store", tmp_path).code == 0
    for protocol in ("matched", "augmented", "roar", "roar-exchanged", "mask-only", "morf", "lerf"):
        words = ("table", *SMALL[:4], "--protocol", protocol, "--store", tmp_path)
        found = {row["estimator"]: row["curve"] for row in json.loads(call(*words, "--format", "json").out)["rows"]}
        assert {"random", "grad"} <= set(found)
        assert all(found["grad"][t] > 0 for t in ("0.1", "0.5", "0.9")), protocol
        assert protocol == "mask-only" or found["grad"]["0.0"] > 0.8, protocol  # a guess is right on one of two
    said = " ".join(call(*words, "--notes").out.split())
    assert f"Left out: sobel, random-blurred: {NO_NEIGHBOURS}." in said
    answer = call("run", *SMALL, "--estimators", "ig(baseline=blur)", "--store", tmp_path)
    refused = f"roarbench: suite 'breast-cancer' has no 'ig(baseline=blur)': {NO_NEIGHBOURS}\n"
    assert (answer.code, answer.err) == (2, refused)
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        (view,) = read_views(store, tmp_path).values()
    assert read_pictures(view.results, tmp_path) is None
