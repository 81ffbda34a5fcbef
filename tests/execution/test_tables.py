"""A run on a bundled table: its rows, and estimators that do not apply to tables."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from leaderboard.pictures import read_pictures
from leaderboard.stored_suites import read_views
from roarbench.common.enums import Unit
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.execution.run_inputs import compute_share_of_differing_matched_masks
from roarbench.plan.suite import NO_NEIGHBOURS
from tests.helpers.image_files import write_table

SMALL = ("--suite", "breast-cancer", "--max-images", "60", "--seeds", "1")


@pytest.mark.slow
def test_tabular_suite_fills_every_protocol_and_rejects_neighbour_estimators(call, store, tmp_path):
    """Tables have no pictures of maps either."""
    assert call("run", *SMALL, "--estimators", "grad", "--store", tmp_path).code == 0
    for protocol in ("matched", "roar", "mask-only", "morf", "lerf"):
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


FEW_COLUMNS = """
name = "few"
protocols = ["matched"]
estimators = ["grad"]
levels = [0.25, 0.5, 0.75]
references = 1
data = {table = "rows.csv", label_column = "kind", test_share = 0.3}
network = {name = "mlp"}
recipe = {like = "tabular@1"}
"""


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (
            "[0.25, 0.5, 0.75]",
            "matched gain cannot tell maps of 4 columns apart: ",
        ),
        (
            "[0.1, 0.5]",
            "the level 0.1 removes 0 of 4 columns, which has the same effect for every map; write levels = ",
        ),
    ],
)
def test_run_refuses_measures_that_are_0_for_every_map(call, tmp_path, levels, said):
    """Nothing is trained; ROAR of the same table is not refused for its masks."""
    write_table(tmp_path / "rows.csv")
    (tmp_path / "few.toml").write_text(FEW_COLUMNS.replace("[0.25, 0.5, 0.75]", levels))
    answer = call("run", "--suite", tmp_path / "few.toml", "--store", tmp_path / "store")
    assert (answer.code, said in answer.err, "Traceback" in answer.err) == (2, True, False), answer.err
    assert not list((tmp_path / "store").glob("**/*.safetensors"))


def test_share_of_differing_matched_masks_of_bundled_tables(tmp_path):
    """breast-cancer-10 has 10 columns in 8 strata, two of which hold two columns if no values are equal."""
    shares = {}
    for name in ("breast-cancer-10", "breast-cancer"):
        images = decode_dataset(find_dataset(name), tmp_path)
        shares[name] = [compute_share_of_differing_matched_masks(images, Unit.SCALAR, "mean", (t,)) for t in (0.1, 0.5)]
    few, many = shares.values()
    # without equal values: 1 - 8/10 = 0.2 at 0.1, and 0.516 at 0.5; equal values make strata larger
    assert 0.2 <= few[0] < 0.3 and 0.51 <= few[1] < 0.6 and min(many) > 0.95
    pixels_alone = SimpleNamespace(test=SimpleNamespace(pixels=np.zeros((1, 65, 1, 1), np.uint8)))
    # masks of more than 64 features differ, which needs no computation
    assert compute_share_of_differing_matched_masks(pixels_alone, Unit.SCALAR, "mean", (0.5,)) == 1.0
