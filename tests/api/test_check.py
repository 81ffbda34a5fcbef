"""`check`: columns against single steps, controls, siblings, tables, and the description of disagreement."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import roarbench as rb
from roarbench.api.check_table import CheckTable
from roarbench.api.removal import compute_image_seeds
from roarbench.common.errors import CallerError
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.estimator import Batch
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from tests.helpers.known_contrasts import make_contrasts
from tests.helpers.user_networks import WithChangedOutput, gradient

LABELS = np.arange(40) % 2
pytestmark = pytest.mark.filterwarnings(
    "ignore:the network classifies .* not significantly above chance",
    "ignore:network . predicts the (right )?class .* not significantly above chance",  # untrained
)


@pytest.fixture(scope="module")
def images():
    return torch.randn(40, 2, 6, 6, generator=torch.Generator().manual_seed(1)) + 0.5


@pytest.fixture(scope="module")
def table(networks, images):
    return rb.check(networks[0], images, LABELS, {"mine": gradient}, networks[1:], levels=(0.2, 0.5))


@pytest.mark.parametrize(("fill", "levels"), [("mean", (0.2, 0.5)), ("linear", (0.5,))])
@pytest.mark.parametrize("order", ["morf", "lerf"])
def test_check_column_equals_gain_over_random(networks, images, table, order, fill, levels):
    targets = networks[0](images).argmax(1)
    batch = Batch(images, targets, compute_image_seeds(images))
    random = compute_importance_maps([find_estimator("random")], None, batch, torch.zeros(2, 1, 1))["random"]
    maps = gradient(networks[0], images.clone(), targets)
    areas = [
        rb.perturbation_curve(networks[0], images, LABELS, of, order, levels, fill).area.value for of in (random, maps)
    ]
    expected = 100 * (areas[0] - areas[1]) * (1 if order == "morf" else -1)
    assert table.gain(f"{order} {fill}", "mine").value == pytest.approx(expected)
    assert table.gain(f"{order} {fill}", "random") == (0.0, None, None)


def test_check_own_network_column_matches_own_network_gain(networks, images, table):
    alone = rb.own_network_gain(networks, images, {"mine": gradient})
    assert table.own_network.images == alone.images
    assert table.own_network.gain("mine") == alone.gain("mine")
    assert table.gain("own network", "mine").value == pytest.approx(alone.gain("mine").value)
    assert table.gain("own network", "sobel") == (0.0, None, None)
    random, sobel, mine = table.present().lines
    headings = tuple(column.heading for column in table.present().texts)
    assert headings[-1] == "own network" and random[-1] == sobel[-1] == "0 by construction" != mine[-1]


def test_check_explains_sibling_networks_on_agreed_images_only(networks, images):
    """The network explains all; in the trial, each explains two more, and the first three images eight times."""
    asked = []

    def count(model, inputs, targets):
        asked.extend(inputs)
        return gradient(model, inputs, targets)

    rb.check(networks[0], images, LABELS, {"mine": count}, networks[1:], levels=(0.2, 0.5))
    said = torch.stack([network(images).argmax(1) for network in networks])
    agreed = int((said == said[0]).all(0).sum())
    assert 0 < agreed < 40 and len(asked) == 3 * 2 + 8 * 3 + 40 + 2 * agreed


@pytest.mark.filterwarnings("ignore:network . predicts", "ignore:the maps of same are the same for all networks")
def test_check_compares_rows_on_agreed_images_only(networks, images):
    """Gains of 0 by construction are compared over the agreed images, too."""
    explainers = {"mine": gradient, "same": lambda model, inputs, targets: inputs}
    found = rb.check(networks[0], images, networks[0](images).argmax(1), explainers, networks[1:], levels=(0.2, 0.5))
    assert 10 <= found.own_network.images < found.images == 40
    assert f"{found.own_network.images} images on which all networks agree" in str(found)
    difference = found._comparisons["own network", "mine", "same"].difference
    assert difference == pytest.approx(found.own_network.gain("mine"))


def test_check_supports_networks_that_call_view(images):
    """Maps and scores use the channels-last layout, in which `view` fails."""

    def check(flatten):
        torch.manual_seed(0)
        convolutions = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU())
        network = nn.Sequential(WithChangedOutput(convolutions, flatten), nn.Linear(4 * 6 * 6, 2)).eval()
        return rb.check(network, images, LABELS, ["grad", "lrp", "deeplift"]).to_dataframe()

    pd.testing.assert_frame_equal(check(lambda x: x.view(x.size(0), -1)), check(lambda x: x.flatten(1)))


def test_check_shares_noisy_passes_within_estimator_family(networks, images):
    """One or three estimators need the same fifteen noisy copies of each image."""

    def count_images(estimators):
        seen = []
        with networks[0].register_forward_hook(lambda model, inputs, logits: seen.append(len(logits))):
            found = rb.check(networks[0], images[:6], LABELS[:6], estimators, levels=(0.5,), fills=("mean",))
        return sum(seen) - 2 * 6 * len(found.to_dataframe())  # MoRF and LeRF of each row

    trials = 2 * 2 * 15  # each estimator is tried alone on two images
    assert count_images(["sg-grad", "sgsq-grad", "var-grad"]) == count_images(["sg-grad"]) + trials


def test_check_reports_all_inapplicable_estimators_before_work(images):
    flat, seen = nn.Sequential(nn.Flatten(), nn.Hardswish(), nn.Linear(72, 2)), []
    estimators = {"mine": lambda model, x, y: seen.extend(x) or x, "gradcam": "gradcam", "gb": "gb", "grad": "grad"}
    with pytest.raises(CallerError, match=r"network 1 cannot be explained by gradcam: .*; gb: [^;]*; leave out"):
        rb.check(flat, images, LABELS, estimators)
    assert len(seen) == 2


def test_check_of_table_leaves_out_what_needs_neighbours():
    rows = torch.randn(60, 12, 1, 1, generator=torch.Generator().manual_seed(0))
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    network[1].weight.data[:, 0] = torch.tensor([-3.0, 3.0])
    labels = (rows[:, 0, 0, 0] > 0).long()
    table = rb.check(network, rows, labels, ["input-x-grad"])
    assert list(table.gains) == ["morf mean", "lerf mean"]
    assert list(table.gains["morf mean"]) == ["random", "input-x-grad"]
    assert table.gain("morf mean", "input-x-grad").low > 0, "the first column decides"
    assert "60 images, of which" in table.caption
    with pytest.raises(CallerError, match="'occlusion' uses neighbouring pixels, and .* no neighbours; leave it out"):
        rb.check(network, rows, labels, ["occlusion"])


def test_check_table_has_text_frames_plot(table, tmp_path):
    lines = repr(table).splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["estimator", "random", "sobel", "mine"]
    assert lines[4].startswith("The network classifies 20 of 40 ") and lines[4].endswith("so no estimator leads.")
    assert "40 images, of which the network classifies 50.0 % correctly; morf" in lines[5]
    assert "<table" in table._repr_html_()
    assert list(table.to_dataframe().columns) == ["estimator", *table.gains, "note"]
    long = table.intervals_to_dataframe().set_index(["estimator", "column"])
    assert tuple(long.loc["mine", "lerf mean"][["gain", "low", "high"]]) == table.gain("lerf mean", "mine")
    table.plot(tmp_path / "check.png")
    assert (tmp_path / "check.png").stat().st_size > 5000


def make_table(columns, images=40, **fields):
    """Return a table with gains given by column and name; all rows except Random vary independently."""
    gains = {
        column: dict(
            zip(
                rows,
                make_contrasts([*rows.values()], np.diag([name != "random" for name in rows]), images),
                strict=True,
            )
        )
        for column, rows in columns.items()
    }
    return CheckTable(gains, dict.fromkeys(columns, (0.5,)), images, 0.5, **fields)


OPPOSED = {"x": {"random": 0, "a": 18, "b": 9}, "y": {"random": 0, "a": 9, "b": 18}}


def test_check_table_describes_disagreement_of_columns():
    against = make_table(OPPOSED, images=10)
    assert against.leaders == {"x": "a", "y": "b"} and against.reversed == [("a", "b")]
    assert against.disagreement.startswith("a leads x, b leads y; 1 pair of rows with significantly")
    unclear = make_table({"x": {"random": 0, "a": 18, "b": 9}, "y": {"random": 0, "a": 9, "b": 10}})
    assert unclear.disagreement.startswith("a leads x, b leads y (not significantly above a); no pair of rows has")


def test_check_names_no_leader_that_is_tied_a_control_or_not_significantly_above_random():
    table = make_table(
        {
            "small": {"random": 0, "centre": 0.5, "a": 1, "b": -9},
            "control": {"random": 0, "centre": 9, "a": 8, "b": 0},
            "tied": {"random": 0, "centre": 1, "a": 9, "b": 9},
            "clear": {"random": 0, "centre": 1, "a": 9, "b": 0},
        },
        controls={"random", "centre"},
    )
    assert table.leaders == {"small": None, "control": None, "tied": None, "clear": "a"}
    assert table.disagreement.startswith("a leads clear, no estimator leads small or control or tied; ")
    without = make_table({"small": {"random": 0, "a": 1}, "tied": {"random": 0, "a": 0}})
    assert without.disagreement.startswith("no estimator leads a column; ")


def test_control_that_the_caller_asked_for_counts_as_control(networks, images):
    table = rb.check(networks[0], images, LABELS, ["centre", "grad"], levels=(0.5,), fills=("mean",))
    assert table.controls == {"random", "sobel", "centre"}


@pytest.mark.parametrize(("verdict", "leader"), [("EXPLAINS", "a"), ("OPEN", None)])
def test_check_leader_of_own_network_is_shown_to_explain_its_network(verdict, leader):
    verdicts = {"random": OwnNetworkVerdict.BY_CONSTRUCTION, "a": OwnNetworkVerdict[verdict]}
    own = SimpleNamespace(verdicts=verdicts, images=40)
    table = make_table({"x": {"random": 0, "a": 9}, "own network": {"random": 0, "a": 9}}, own_network=own)
    assert table.leaders == {"x": "a", "own network": leader}


def test_check_names_no_leader_for_network_at_chance():
    seen = "The network classifies 21 of 40 images correctly."
    table = make_table(OPPOSED, at_chance_warning=seen)
    assert table.leaders == {"x": None, "y": None} and table.reversed == []
    assert "leads" not in table.caption and table.caption.startswith(f"{seen}\n")
    assert set(table.to_dataframe()["note"]) == set(table.intervals_to_dataframe()["note"])
    assert table.to_dataframe()["note"][0] == "accuracy not significantly above chance"
    assert table.plot()._suptitle.get_text() == seen


def test_check_names_no_leader_of_one_image(networks, images):
    said = torch.stack([network(images).argmax(1) for network in networks])
    first = images[(said == said[0]).all(0)][:1]
    one = rb.check(networks[0], first, LABELS[:1], "grad", networks[1:], levels=(0.5,), fills=("mean",))
    assert not any(one.leaders.values()) and one.intervals_to_dataframe()["low"].isna().all()
    assert "the 1 image on which all networks agree" in one.caption


def test_check_gives_no_interval_to_gain_without_any_difference():
    table = make_table({"x": {"random": 0, "mine": 0, "other": 1}})
    words = "Without an interval: 0 on every image, or one image; others may differ."
    assert words not in table.caption
    table.gains["x"]["mine"] = make_contrasts([0.0], 0.0)[0]
    assert table.gain("x", "mine") == (0.0, None, None) and words in table.caption


class Constant(nn.Module):
    """Assign all images to the first of three classes, with logits that differ by `shift`."""

    def __init__(self, shift):
        super().__init__()
        self.bias = nn.Parameter(torch.tensor([9.0 + shift, 0.0, 0.0]))

    def forward(self, inputs):
        return self.bias + 0.001 * inputs.mean((1, 2, 3))[:, None]


@pytest.mark.filterwarnings("ignore:the maps of .* are the same for all networks")
def test_check_compares_accuracy_with_largest_class(images):
    """Of 40 labels of three classes, 28 are 0; the second call lacks class 2, so chance is a third."""
    mine = {"mine": lambda model, inputs, targets: inputs}
    check = partial(rb.check, Constant(1), images, estimators=mine, levels=(0.5,), fills=("mean",))
    words = "classifies 28 of 40 images correctly, which is not significantly above chance of 70.0% .always the largest"
    with pytest.warns(UserWarning, match=words):
        check(labels=np.repeat([0, 1, 2], [28, 9, 3]))
    with pytest.warns(UserWarning, match="a single class is predicted for all 40 images by network 1; if ") as caught:
        check(labels=np.repeat([0, 1], [28, 12]))
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]
    check(labels=np.zeros(40, int))
    with pytest.warns(UserWarning, match="images by network 1, 2, 3"):
        rb.own_network_gain([*map(Constant, (1, 2, 3))], images, mine, levels=(0.5,))


@pytest.mark.filterwarnings("ignore:the maps of .* are the same for all networks")
@pytest.mark.filterwarnings("ignore:network 3 predicts the right class for 30 of 40 images, and the best")
def test_check_and_own_network_gain_warn_of_tied_features(networks, images):
    half, mostly = np.ones((6, 6)), np.zeros((6, 6))
    half[:3] = 0
    mostly[:2] = 1
    maps = {name: [np.broadcast_to(one, (40, 6, 6))] * 3 for name, one in {"mostly": mostly, "half": half}.items()}
    words = r"more than 50% of the features in the maps of mostly \(67%\) have the same value"
    with pytest.warns(UserWarning, match=words):
        rb.check(networks[0], images, networks[0](images).argmax(1), maps, networks[1:], levels=(0.5,))
    with pytest.warns(UserWarning, match=words):
        rb.own_network_gain(networks, images, maps, levels=(0.5,))


def test_one_map_for_all_images_causes_a_warning_unless_it_was_expanded(networks, images):
    """A loop that appends the array that it fills for each image gives all images the last map."""
    labels, buffer, kept = networks[0](images).argmax(1), torch.empty(1, 6, 6), []
    for image in images:
        kept.append(buffer.copy_(image[:1]))
    words = "all 40 maps .*are equal, as if one array had been filled for each image in turn; keep copies, or"
    for call in (
        lambda maps: rb.check(networks[0], images, labels, {"mine": maps}, fills=["mean"]),
        lambda maps: rb.perturbation_curve(networks[0], images, labels, maps),
    ):
        with pytest.warns(UserWarning, match=words):
            call(torch.stack(kept))
        call(buffer.expand(40, 1, 6, 6))


def test_check_counts_constant_maps(networks, images):
    """A function that returns zeros for the images at which it fails."""
    targets = networks[0](images).argmax(1)
    maps = gradient(networks[0], images, targets)
    maps[[3, 7, 20]] = 0
    with pytest.warns(UserWarning, match="3 of 40 maps of mine have the same value everywhere, so features are ranked"):
        rb.check(networks[0], images, targets, {"mine": maps}, levels=(0.5,), fills=("mean",))


def test_check_warns_of_maps_cast_to_bytes(networks, images):
    def cast(model, inputs, targets):
        maps = gradient(model, inputs, targets)
        return (maps / maps.abs().amax((1, 2, 3), keepdim=True) * 20).to(torch.int32).to(torch.uint8)

    array = cast(networks[0], images, networks[0](images).argmax(1)).numpy()
    for explainer in (cast, array):
        with pytest.warns(UserWarning, match="the maps of mine have at most 256 different values"):
            rb.check(networks[0], images, networks[0](images).argmax(1), {"mine": explainer}, levels=(0.5,))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"siblings": {"a": nn.Identity()}}, "siblings is a dict, expected a list of networks; write"),
        ({"siblings": torch.ones(2, 3)}, "siblings is a Tensor, expected a list of networks; write"),
        ({"siblings": 1}, "there is 1 sibling, expected none or at least 2"),
        ({"fills": "mean"}, "write fills="),
        ({"fills": ("best",)}, "fill 'best'"),
        ({"levels": (1,)}, "no level removes some of the features: 1 removes 72 of 72 features"),
        ({"estimators": {"random": gradient}}, "random is a control of this table"),
        ({"estimators": ["mine.npy"]}, "the file mine.npy; load the file with np.load"),
        ({"estimators": {"mine": Path("mine.pt")}}, "the file mine.pt; load the file with torch.load"),
        ({"estimators": [gradient]}, 'a function without a name; write {"mine": …}'),
    ],
)
def test_check_rejects_invalid_arguments(networks, images, change, words):
    asked = {"labels": LABELS, "estimators": "grad", **change}
    count = asked.get("siblings", 0)
    asked["siblings"] = networks[:count] if isinstance(count, int) else count
    with pytest.raises(CallerError, match=words):
        rb.check(networks[0], images, **asked)
