"""`own_network_gain`: its definition on three tiny networks, sources of maps, and invalid arguments."""

from copy import deepcopy
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient, LayerGradCam, Occlusion
from torch import nn

import roarbench as rb
from roarbench.api.gain_tables import estimate_gain
from roarbench.api.removal import rank_maps
from roarbench.common.errors import CallerError
from tests.helpers.known_contrasts import make_contrasts
from tests.helpers.user_networks import WithChangedOutput, gradient

LEVELS = (0.1, 0.4)
pytestmark = pytest.mark.filterwarnings(
    "ignore:network . predicts the (right )?class .* not significantly above chance",  # untrained
    "ignore:networks . and . have the same weights",
)


@pytest.fixture(scope="module")
def images():
    return torch.randn(60, 2, 6, 6, generator=torch.Generator().manual_seed(1)) + 0.5


def sort(image, importance):
    return importance.flatten().argsort(descending=True)


def compute_gain_slowly(networks, images, order, explain=gradient, rank=sort, fill=None):
    """Compute the gain by its definition, image by image."""
    fill = images.mean((0, 2, 3)) if fill is None else torch.tensor(fill)
    fill, numbers, counted = fill.view(2, 1, 1).expand(2, 6, 6), [], 0
    for image in images:
        classes = [int(model(image[None]).argmax()) for model in networks]
        if len(set(classes)) > 1:
            continue
        counted += 1
        maps = [explain(model, image[None].clone(), torch.tensor(classes[:1]))[0] for model in networks]
        for t in LEVELS:
            kept = np.zeros((3, 3))
            for i, importance in enumerate(maps):
                count, ranked = round(t * 72), rank(image, importance)
                ranked = ranked[:count] if order == "morf" else ranked[72 - count :]
                left = image.flatten().clone()
                left[ranked] = fill.flatten()[ranked]
                for j, model in enumerate(networks):
                    kept[i, j] = int(model(left.view(1, 2, 6, 6)).argmax()) == classes[0]
            points = 50 if order == "morf" else -50
            for i, j in combinations(range(3), 2):
                numbers.append(points * (kept[i, j] + kept[j, i] - kept[i, i] - kept[j, j]))
    return np.mean(numbers), counted


@pytest.mark.parametrize("order", ["morf", "lerf"])
def test_own_network_gain_matches_definition(networks, images, order):
    expected, counted = compute_gain_slowly(networks, images, order)
    found = rb.own_network_gain(networks, images, {"mine": gradient, "built in": "grad"}, order=order, levels=LEVELS)
    assert 5 < counted < 60
    assert (found.images, found.of) == (counted, 60)
    assert found.gain("mine").value == pytest.approx(expected)
    assert found.gain("built in").value == pytest.approx(expected, abs=1.0)  # sums in another order
    assert expected != 0


def test_own_network_gain_with_caller_s_fill_matches_definition(networks, images):
    fill = [1.5, -1.0]
    expected, _ = compute_gain_slowly(networks, images, "morf", fill=fill)
    assert expected != compute_gain_slowly(networks, images, "morf")[0]
    found = rb.own_network_gain(networks, images, {"mine": gradient}, levels=LEVELS, fill=fill)
    assert found.gain("mine").value == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore:more than 50% of the features in the maps")
@pytest.mark.parametrize("order", ["morf", "lerf"])
def test_own_network_gain_breaks_ties_like_rank_maps_without_dropout(networks, images, order):
    """Half of the features share the largest importance; another order of ties gives another gain."""

    def explain(model, inputs, targets):
        return (gradient(model, inputs, targets) > 0).float()

    def rank(image, importance):
        return rank_maps(image[None], importance[None])[0].copy()

    models = [nn.Sequential(nn.Dropout(), model).train() for model in networks]
    found = rb.own_network_gain(models, images, {"mine": explain}, order=order, levels=LEVELS).gain("mine").value
    assert found == pytest.approx(compute_gain_slowly(networks, images, order, explain, rank)[0])
    assert found != pytest.approx(compute_gain_slowly(networks, images, order, explain)[0])


def test_own_network_gain_is_0_by_construction_for_equal_maps(networks, images):
    same = [np.random.default_rng(0).random((60, 6, 6), dtype=np.float32)] * 3
    words = "the maps of maps are the same for all networks, so own-network gain is 0; .* pass maps of each network"
    with pytest.warns(UserWarning, match=words):
        found = rb.own_network_gain(networks, images, {"random": "random", "maps": same}, levels=LEVELS)
    assert set(found.verdicts.values()) == {"0 by construction"}
    assert found.gain("maps") == (0.0, None, None)
    frame = found.to_dataframe()
    assert frame["gain"].tolist() == [0, 0] and frame["gain_low"].isna().all()


def test_function_that_explains_a_network_from_outside_is_named(networks, images):
    """A slip of notebooks: the function explains the global `model` in place of its argument."""
    outside = networks[0]
    explainers = {"mine": lambda model, x, targets: gradient(outside, x, targets), "argument": gradient}
    words = "the maps of mine are the same for all networks, so own-network gain is 0; .* not one from outside"
    with pytest.warns(UserWarning, match=words):
        rb.own_network_gain(networks, images, explainers, levels=LEVELS)
    with pytest.warns(UserWarning, match=words):
        labels = outside(images).argmax(1)
        rb.check(outside, images, labels, explainers, networks[1:], fills=("mean",))


def test_arrays_captum_classes_or_functions_give_equal_gains(networks, images):
    def product(model, inputs, targets):
        return inputs.detach() * gradient(model, inputs, targets)

    def with_options(model, images, targets, **options):
        return product(model, images, targets, **options)

    def for_quantus(model, inputs, targets, **options):
        assert isinstance(inputs, np.ndarray) and isinstance(targets, np.ndarray)
        return product(model, torch.from_numpy(inputs), torch.from_numpy(targets), **options).numpy()

    targets = networks[0](images).argmax(1)
    arrays = [product(model, images.clone(), targets) for model in networks]
    functions = {"f": product, "options": with_options, "quantus": for_quantus, "captum": InputXGradient}
    found = rb.own_network_gain(
        networks, images, functions | {"a": arrays, "joined": torch.stack(arrays)}, levels=LEVELS
    )
    assert len({found.gain(name) for name in found.gains}) == 1


def test_builtin_input_x_grad_uses_mean_image_as_baseline(networks, images):
    def product(model, inputs, targets):
        return (inputs.detach() - images.mean((0, 2, 3), keepdim=True)) * gradient(model, inputs, targets)

    found = rb.own_network_gain(networks, images, {"mine": product, "ours": "input-x-grad"}, levels=LEVELS)
    assert found.gain("ours").value == pytest.approx(found.gain("mine").value, abs=1.0)
    frame, by_level = found.to_dataframe(), [f"gains_{t}" for t in LEVELS]
    assert frame[by_level].mean(axis=1).tolist() == pytest.approx(frame["gain"].tolist())
    assert (frame["gains_low_0.4"] < frame["gains_0.4"]).all()
    lines = repr(found).splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["estimator", *found.to_dataframe()["estimator"]]
    assert "3 networks" in lines[3] and "<table" in found._repr_html_()


@pytest.mark.filterwarnings("ignore:a single class is predicted")
def test_own_network_gain_adds_permutation_test_for_four_networks(networks, images):
    fourth = nn.Sequential(networks[0], nn.Linear(2, 2))
    found = rb.own_network_gain([*networks, fourth], images, ["grad", "random"], levels=LEVELS)
    shown = found.present()
    p = found.to_dataframe().set_index("estimator")["permutation_p"]["grad"]
    assert shown.texts[-1].heading == "permutation p"
    assert {row[0]: row[-1] for row in shown.lines} == {"grad": f"{p:.3f}", "random": "–"}
    assert "permutation" not in repr(rb.own_network_gain(networks, images, ["random"], levels=LEVELS))


def test_interval_of_few_networks_ends_at_largest_possible_gain():
    assert estimate_gain(make_contrasts([54.7], 300.0**2)[0]) == (54.7, -100, 100)


@pytest.mark.filterwarnings("ignore:a single class is predicted")
def test_one_agreed_image_and_equal_rows_give_no_interval_and_no_evidence(networks, images):
    classes = torch.stack([network(images).argmax(1) for network in networks])
    agreed, others = images[(classes == classes[0]).all(0)], images[(classes != classes[0]).any(0)]
    one = torch.cat([others[:3], agreed[-1:]])
    rows = {"mine": gradient, "same": gradient, "random": "random"}
    found = rb.own_network_gain(networks, one, rows, levels=LEVELS)
    assert (found.images, found.of) == (1, 4)
    assert found.verdicts == {"mine": "not shown", "same": "not shown", "random": "0 by construction"}
    assert found.gain("mine") == (found.gains["mine"].gain.value, None, None)
    assert found.compare("mine", "random")[:6] == (*found.gain("mine"), 1, 1, "not significantly different")
    assert found.caption.endswith(" Without an interval: 0 on every image, or one image; others may differ.")
    row = next(row for row in found.present().lines if row[0] == "mine")
    assert (row[1], row[-1]) == ("0.0", "not shown")
    more = rb.own_network_gain(networks, images, rows, levels=LEVELS)
    assert more.gain("mine").low is not None and "Without an interval" not in more.caption
    assert more.compare("mine", "same")[:6] == (0, None, None, 1, None, "not significantly different")


def test_levels_that_remove_no_feature_or_all_are_left_out(networks, images):
    expected = rb.own_network_gain(networks, images, {"mine": gradient}, levels=LEVELS)
    words = "^levels are left out: 0.001 removes 0 of 72 features, 1 removes 72 of 72 features$"
    with pytest.warns(UserWarning, match=words) as caught:
        found = rb.own_network_gain(networks, images, {"mine": gradient}, levels=(0.001, *LEVELS, 1))
    assert {Path(warning.filename).name for warning in caught} == {Path(__file__).name}
    assert found.levels == LEVELS and repr(found) == repr(expected)


def test_compare_rows_uses_paired_interval(networks, images):
    """Nearly equal maps have a difference with a shorter interval than either gain."""

    def near(model, inputs, targets):
        return gradient(model, inputs, targets) + 1e-3 * inputs.detach()

    found = rb.own_network_gain(networks, images, {"grad": gradient, "near": near, "random": "random"}, levels=LEVELS)
    one, two = found.gain("grad"), found.gain("near")
    paired = found.compare("grad", "near")
    assert paired.points == pytest.approx(one.value - two.value)
    assert paired.high - paired.points < 0.5 * min(gain.high - gain.value for gain in (one, two))
    assert paired.planned and (paired.verdict == "not significantly different") == (paired.low <= 0 <= paired.high)
    assert (paired.p <= 0.05) == (not paired.low <= 0 <= paired.high)
    assert paired.p_adjusted is None and f"points, p {paired.p:.4f}: " in str(paired)
    beside_zero, turned = found.compare("grad", "random"), found.compare("random", "grad")
    assert beside_zero[:3] == one and turned[:3] == one.negative and not beside_zero.planned
    assert (beside_zero.verdict == "better") == (found.verdicts["grad"] == "above 0")
    assert turned.p_adjusted == beside_zero.p_adjusted and turned.p == beside_zero.p
    assert str(paired).startswith("grad - near: ") and str(paired).endswith(str(paired.verdict))
    assert found.compare("random", "random")[:5] == (0.0, None, None, None, None)
    with pytest.raises(CallerError, match="no row 'ig'; known: grad, near, random"):
        found.compare("grad", "ig")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"networks": 2}, "there are 2 networks, expected 3 or more"),
        ({"levels": (0.5, 0.1)}, r"expected ascending fractions in \(0, 1\]"),
        ({"order": "most"}, "order 'most'"),
        ({"estimators": {}}, "there are no estimators"),
        ({"estimators": {"a": 3}}, "a is an int"),
        ({"estimators": {3: "grad"}}, "the name of an estimator is 3, expected 1 to 100 characters of one printable"),
        ({"estimators": {" ": "grad"}}, "the name of an estimator is ' ', expected 1 to 100 characters"),
        ({"estimators": {"a\nb": "grad"}}, r"the name of an estimator is 'a\\nb', expected 1 to 100 characters"),
        ({"estimators": {"x" * 101: "grad"}}, "the name of an estimator is 'x+…, expected 1 to 100 characters"),
        ({"estimators": {"a": nn.Identity()}}, "a is an Identity; expected a function of"),
        ({"estimators": torch.zeros(60, 6, 6)}, 'a Tensor without a name; write {"mine": …}'),
        ({"estimators": {"a": [torch.zeros(60, 6, 6)] * 2}}, "2 arrays of maps, expected 3: one for each network$"),
        ({"estimators": {"a": torch.zeros(60, 6, 6)}}, "60 arrays of maps, expected 3: one for each network$"),
        ({"estimators": {"a": [*torch.zeros(60, 6, 6)]}}, r"; maps of single images .* by torch.stack\(maps\)$"),
        ({"estimators": {"a": [torch.zeros(9, 6, 6)] * 3}}, r"the maps of a have shape \(9, 6, 6\)"),
        ({"estimators": {"a": [None] * 3}}, "maps of a are None, expected real numbers"),
        ({"estimators": {"a": lambda m, x, y: x.permute(0, 2, 3, 1)}}, r"write .permute\(0, 3, 1, 2\)"),
        ({"estimators": {"a": lambda m, x, y: x * float("nan")}}, "network 1 .* a: .* NaN"),
        ({"estimators": {"a": lambda model: None}}, "a takes only the network and returned None"),
        ({"estimators": {"a": lambda m, x: x}}, "a has 2 arguments without a default; expected a function of"),
        ({"estimators": {"a": InputXGradient(nn.Identity())}}, "a is an InputXGradient; .* a class of captum"),
        ({"estimators": {"a": InputXGradient(nn.Identity()).attribute}}, "is bound to a captum object"),
        ({"estimators": {"a": LayerGradCam}}, "a needs more arguments than a network; pass a function of the network"),
        ({"estimators": {"a": Occlusion}}, "missing a required argument: 'sliding_window_shapes'; pass a"),
        ({"estimators": {"a": lambda model: Occlusion(model)}}, "missing a required argument: 'sliding_window_shapes'"),
        ({"estimators": "linear-classifier"}, "needs a suite"),
        ({"estimators": [Path("x/mine.py")]}, "x/mine.py is the file x/mine.py, and only rb.evaluate runs files"),
        ({"estimators": "mine.py"}, "pass its function: from mine import estimate$"),
    ],
)
def test_own_network_gain_rejects_invalid_arguments(networks, images, change, words):
    asked = {"estimators": "grad", "levels": LEVELS, **change}
    models = networks[: asked.pop("networks", 3)]
    with pytest.raises(CallerError, match=words):
        rb.own_network_gain(models, images, asked.pop("estimators"), **asked)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda networks: networks[0], "networks is a Sequential, .* write \\[model, sibling_1, sibling_2\\]"),
        (lambda networks: [*networks[:2], "ig"], "item 3 of networks is a str, expected a torch.nn.Module"),
        (
            lambda networks: [*networks[:2], deepcopy(networks[0])],
            "networks 1 and 3 return the same logits for all images; expected siblings with other weights",
        ),
    ],
)
def test_own_network_gain_rejects_networks_that_are_no_different_modules(networks, images, given, words):
    with pytest.raises(CallerError, match=words):
        rb.own_network_gain(given(networks), images, "grad")


class UndefinedForFlatImages(WithChangedOutput):
    """A network whose logits are NaN for images in which all values, except at most two, are equal."""

    def __init__(self, network):
        super().__init__(network, None)

    def forward(self, images):
        values = images.flatten(1)
        flat = (values == values.mode(1).values[:, None]).sum(1) >= 70
        return self.model(images).masked_fill(flat[:, None], float("nan"))


def test_own_network_gain_rejects_nan_logits(networks, images):
    models, one_flat = [*map(UndefinedForFlatImages, networks)], images.clone()
    one_flat[10] = 0
    with pytest.raises(CallerError, match="network 1 returns logits that are NaN for image 10; leave the image out"):
        rb.own_network_gain(models, one_flat, "grad", levels=LEVELS)
    words = "a network returns logits that are NaN after features are removed; pass smaller levels"
    with pytest.raises(CallerError, match=words):
        rb.own_network_gain(models, images, "grad", levels=(0.5, 0.98), fill=[0.0, 0.0])


def test_own_network_gain_rejects_nondeterministic_network(networks, images):
    noisy = nn.Sequential(networks[1], nn.Dropout())
    noisy[1].train = lambda mode=True: noisy[1]  # stays in training mode, where it draws
    with pytest.raises(CallerError, match="network 2 gives different logits for the same images when called again"):
        rb.own_network_gain([networks[0], noisy, networks[2]], images, "grad", levels=LEVELS)


@pytest.mark.parametrize("given", ["grad", "gb", gradient])
def test_gradient_estimators_reject_logits_without_gradient(networks, images, given):
    class NoGradient(nn.Sequential):
        @torch.no_grad()
        def forward(self, x):
            return super().forward(x)

    models = [networks[0], NoGradient(networks[1]), networks[2]]
    with pytest.raises(CallerError, match="network 2 .* logits have no gradient, .* such as 'occlusion'$"):
        rb.own_network_gain(models, images, {"a": given})
    assert rb.own_network_gain(models, images[:9], "occlusion").networks == 3
