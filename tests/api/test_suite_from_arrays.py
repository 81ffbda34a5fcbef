"""`Suite.from_arrays`: a suite of a network and arrays."""

import re
import sys
from pathlib import Path
from types import MethodType

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn
from torch.nn.utils import prune

import roarbench
from roarbench.api.network_source import write_network_structure
from roarbench.api.suites import make_console
from roarbench.compute.networks import build_network
from roarbench.execution.reproduction import reproduce
from roarbench.plan.recipes import find_recipe
from roarbench.plan.settings import Settings
from roarbench.store.results import ReproductionOutcome, ResultsStore, make_default_url
from tests.helpers import user_networks
from tests.helpers.user_networks import WithChangedOutput, arrays, network

TRAIN, TEST = arrays(12, 0), arrays(6, 1)
IMAGES, LABELS = TEST


def make_array_suite(store, model=None, train=TRAIN, test=TEST, **settings):
    """Make a suite without training; the network and images of these tests are the defaults."""
    settings = {"protocols": ("morf",), "estimators": ("grad",), "levels": (0.5,)} | settings
    return roarbench.Suite.from_arrays(model or network(), train, test, store=store, **settings)


@pytest.fixture(scope="module")
def array_suite(tmp_path_factory, inline):
    return make_array_suite(tmp_path_factory.mktemp("arrays"))


def test_network_structure_file_builds_network_with_new_weights():
    source, notes = write_network_structure(network(), torch.from_numpy(IMAGES))
    made = [build_network("own.network@0", 2, 3, 8, torch.Generator().manual_seed(seed), source) for seed in (1, 1, 2)]
    one, again, other = (model.state_dict() for model in made)
    expected = network().state_dict()
    assert {name: value.shape for name, value in one.items()} == {name: one.shape for name, one in expected.items()}
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert torch.equal(one["0.factor"], expected["0.factor"]) and not torch.equal(one["1.weight"], other["1.weight"])
    assert not torch.equal(one["1.weight"], expected["1.weight"]) and not notes
    assert torch.equal(one["2.running_mean"], torch.zeros(4))


def test_from_arrays_explains_given_network_on_given_images(array_suite):
    (reference,) = array_suite.load_or_train_references()
    test = array_suite.load_test_data()
    torch.testing.assert_close(test.images, torch.from_numpy(IMAGES), atol=0.02, rtol=0)  # a step is 2 / 255
    assert test.labels.tolist() == LABELS.tolist()
    torch.testing.assert_close(reference.model(test.images), network().eval()(test.images))


@pytest.mark.slow
def test_evaluate_runs_array_suite(array_suite):
    result = roarbench.evaluate(array_suite, quiet=True)
    with ResultsStore.open(make_default_url(array_suite.store)) as store:  # with the weights of the store
        key = next(row.run.key for row in result.stored.results.values() if row.run.cell.estimator == "grad")
        again = reproduce(key, Settings(array_suite.store), store, Console(quiet=True))
    assert again.verdict is ReproductionOutcome.EQUAL
    assert {"grad", "random"} <= set(result.to_dataframe()["name"])
    assert result.to_dataframe().attrs["protocol"] == "morf"
    assert roarbench.load_suite("mine", array_suite.store, reference=Path("net.pt")).settings.weights == ("net.pt",)
    given = array_suite.runnable_plan.given
    kept = roarbench.load_suite("mine", array_suite.store, reference=given).result(["grad"])  # by name, as a command
    assert list(kept.to_dataframe()["name"]) == ["grad"]


class SlopeOfEnergy(nn.Module):
    """Two classes: the mean gradient of the energy, a sum of softplus, in each half of the channels; no weights."""

    def forward(self, images):
        with torch.enable_grad():
            images = images.clone() if images.requires_grad else images.detach().requires_grad_()
            (slope,) = torch.autograd.grad(nn.functional.softplus(images).sum(), images, create_graph=True)
        return torch.stack([9 * slope[:, :1].mean((1, 2, 3)), 9 * slope[:, 1:].mean((1, 2, 3))], 1)


def test_suite_takes_networks_without_weights_that_compute_gradients(tmp_path, inline):
    suite = make_array_suite(tmp_path, SlopeOfEnergy(), None)
    frame = roarbench.evaluate(suite, ["grad"], quiet=True).to_dataframe()
    assert {"grad", "random"} <= set(frame["name"]) and frame["gain"].notna().all()
    (reference,) = suite.load_or_train_references()
    halves = torch.sigmoid(suite.load_test_data().images).split([1, 2], 1)
    expected = torch.stack([9 * half.mean((1, 2, 3)) for half in halves], 1)
    torch.testing.assert_close(reference.model(suite.load_test_data().images), expected)
    assert reference.targets.tolist() == expected.argmax(1).tolist()


def compute_logits_of_suite(suite, images):
    """Compute logits of the suite's network, which is built from its file and weights as in workers."""
    held = torch.load(suite.settings.weights[0], weights_only=True)
    made = build_network(suite.plan.model, 2, 3, images.shape[-1], torch.Generator(), suite.plan.network_source).eval()
    made.load_state_dict(held["state_dict"])
    return made(torch.as_tensor(images))


def make_convnet(k, *, flat=False):
    torch.manual_seed(0)
    ends = [nn.Flatten(0)] if flat else []
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, k), *ends)


@pytest.mark.parametrize("flat", [False, True])
def test_from_arrays_converts_one_logit_to_two_classes(tmp_path, flat):
    model = make_convnet(1, flat=flat)
    suite = make_array_suite(tmp_path, model, test=(IMAGES, LABELS[:, None].astype(float)))
    images = torch.tensor(IMAGES, requires_grad=True)
    z, found = model(images).detach().view(-1), compute_logits_of_suite(suite, images)
    torch.testing.assert_close(found.softmax(1)[:, 1], z.sigmoid())
    torch.testing.assert_close(found, torch.stack([-z / 2, z / 2], 1))
    (gradient,) = torch.autograd.grad(found[:, 0].sum(), images)
    assert (gradient.flatten(1).abs().sum(1) > 0).all(), "class 0 has nonzero gradients, too"
    assert suite.runnable_plan.dataset_record.classes == 2


def test_network_of_user_package_keeps_logits_in_suite(tmp_path, monkeypatch):
    torch.manual_seed(0)
    model = user_networks.Net()
    suite = make_array_suite(tmp_path, model)
    torch.testing.assert_close(compute_logits_of_suite(suite, IMAGES), model(torch.from_numpy(IMAGES)))
    for kind in (user_networks.Args, user_networks.Block, user_networks.Act, user_networks.Config, user_networks.Net):
        monkeypatch.setattr(kind, "__module__", "elsewhere")
    monkeypatch.setitem(sys.modules, "elsewhere", user_networks)
    assert make_array_suite(tmp_path, model).version == suite.version


class Named(torch.Tensor):
    """A class of a network's own, as fastai has; the file of the network has another one."""


class ReturnsNamed(WithChangedOutput):
    def forward(self, images):
        return super().forward(images).as_subclass(Named)


def test_networks_may_return_tensors_of_a_class_of_their_own(tmp_path):
    model = network()
    suite = make_array_suite(tmp_path, ReturnsNamed(model, nn.Identity()))
    found = compute_logits_of_suite(suite, IMAGES)
    assert type(found) is torch.Tensor
    torch.testing.assert_close(found, model.eval()(torch.from_numpy(IMAGES)))


class Keeping(nn.Module):
    """A network that keeps tensors of its last pass, as transformers keep their attention, and one of its first."""

    def __init__(self):
        super().__init__()
        self.layer, self.attention, self.shift = nn.Linear(3 * 8 * 8, 2), None, torch.tensor(0.25)
        self.passes, self.cached = [], None

    def forward(self, images):
        features = images.flatten(1) + self.shift
        if self.cached is None:
            self.cached = features.new_ones(2)
        self.attention = self.layer(features)
        self.last = {"features": features}
        self.passes[:] = [features]
        return self.attention * self.cached


def test_tensors_that_a_forward_keeps_are_not_part_of_array_suite(tmp_path):
    torch.manual_seed(0)
    model = Keeping()
    version, images = make_array_suite(tmp_path, model).version, torch.from_numpy(IMAGES)
    assert (model.attention, model.cached, hasattr(model, "last")) == (None, None, False), "attributes are as before"
    assert make_array_suite(tmp_path, model).version == version
    model.attention = torch.zeros(2)  # an earlier pass stored these, one of them with a graph
    model.last, model.passes = {"features": images.clone().requires_grad_() * 2}, [images]
    suite = make_array_suite(tmp_path, model)
    assert suite.version == version and list(model.last) == ["features"] and len(model.passes) == 1
    assert b"attention" in Path(suite.name_or_file).with_name("network.py").read_bytes()
    torch.testing.assert_close(compute_logits_of_suite(suite, IMAGES), model(images))
    model.shift = torch.tensor(0.5)  # not from a pass, so it belongs to the network
    assert make_array_suite(tmp_path, model).version != version


def test_from_arrays_names_attribute_that_cannot_be_copied(tmp_path):
    model = nn.Sequential(nn.Flatten(), Keeping())
    model[1].shift = model[1].layer.weight.sum() * 0.1
    with pytest.raises(roarbench.CallerError, match=r"its attribute '1.shift' is a tensor computed with a gradient"):
        make_array_suite(tmp_path, model)


def make_network_with_local_base():
    from torch import nn as layers

    class Scale(layers.Identity):
        pass

    return nn.Sequential(nn.Flatten(), Scale(), nn.Linear(192, 2))


def make_script():
    return torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(192, 2)))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_network_with_local_base, "network.py raised NameError: name 'layers' is not defined"),
        (make_script, "programs of torch.jit have no source"),
    ],
)
@pytest.mark.filterwarnings("ignore:.torch.jit.script")
def test_from_arrays_says_why_a_structure_cannot_be_written(tmp_path, make, reason):
    words = rf"^the network's structure cannot be written \({reason}\); pass network=, a function"
    with pytest.raises(roarbench.CallerError, match=words):
        make_array_suite(tmp_path, make())


def make_pruned_convnet():
    model = make_convnet(2)
    prune.l1_unstructured(model[0], "weight", 0.5)
    return model


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_from_arrays_names_networks_whose_weights_a_hook_computes(tmp_path):
    model, other = make_pruned_convnet(), make_convnet(2)
    nn.utils.weight_norm(other[0])
    for each, name in ((model, "orig"), (other, "g")):
        words = rf"written \(a hook computes a weight from '0.weight_{name}' in each pass\); .*, or pass network="
        for protocols in (["morf"], ["roar"]):
            with pytest.raises(roarbench.CallerError, match=words):
                make_array_suite(tmp_path, each, protocols=protocols)
    suite = make_array_suite(tmp_path, model, network=make_pruned_convnet)
    torch.testing.assert_close(compute_logits_of_suite(suite, IMAGES), model(torch.from_numpy(IMAGES)))


def test_from_arrays_names_networks_whose_train_returns_nothing(tmp_path):
    class Frozen(nn.Sequential):
        def train(self, mode=True):
            super().train(mode)
            self[0].eval()

    network = Frozen(*make_convnet(2))
    for protocols in (["morf"], ["roar"]):
        with pytest.raises(roarbench.CallerError, match=r"Frozen.train\(\) does not return the network"):
            make_array_suite(tmp_path, network, protocols=protocols)
    assert network.training


FILE = """
from torch import nn

class Twice(nn.Sequential):
    def forward(self, images):
        return 2 * super().forward(images)

def made(classes, channels, size):
    pool = nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), pool, nn.Flatten(), nn.Linear(4, classes))
"""


@pytest.mark.parametrize("bound", [False, True])
def test_from_arrays_names_methods_that_were_replaced(tmp_path, bound):
    model = make_convnet(2)
    forward = model[0].forward
    if bound:  # has the name of the class's method, so pickle would write that one
        model[0].forward = MethodType(type(model[1]).forward, model[0])
    else:
        model[0].forward = lambda images: forward(images) * 2
    words = r"\(0\.forward was replaced by assignment, and .*\); define the method in a subclass, or pass network="
    with pytest.raises(roarbench.CallerError, match=words):
        make_array_suite(tmp_path, model)
    model[0].forward = forward  # the class's own method
    make_array_suite(tmp_path, model)


def test_from_arrays_builds_unwritable_network_from_file(tmp_path):
    model, file = make_convnet(2), tmp_path / "hidden.py"
    model.open = sys.stderr  # a stream cannot be written
    words = r"cannot be written .*; pass network=, a function .* or 'FILE.py:FUNCTION'"
    with pytest.raises(roarbench.CallerError, match=words):
        make_array_suite(tmp_path, model)
    file.write_text(FILE)
    suite = make_array_suite(tmp_path, model, network=f"{file}:made")
    torch.testing.assert_close(compute_logits_of_suite(suite, IMAGES), model(torch.from_numpy(IMAGES)))
    for old, new, words in (
        ("(4, classes)", "(4, classes + 1)", "builds a different network .*size mismatch"),
        ("return nn.Sequential", "return Twice", "built again with the same state dict, gives different logits"),
    ):
        file.write_text(FILE.replace(old, new))
        with pytest.raises(roarbench.CallerError, match=words):
            make_array_suite(tmp_path, model, network=f"{file}:made")
    with pytest.raises(roarbench.CallerError, match="cannot read nowhere.py"):
        make_array_suite(tmp_path, model, network="nowhere.py:made")


def test_training_uses_full_size_if_network_needs_it_and_never_mirrors_images(tmp_path):
    torch.manual_seed(0)
    fixed = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2))
    given = {"protocols": ("matched", "morf")}
    assert "sides=1" in make_array_suite(tmp_path, fixed, **given).runnable_plan.recipe
    recipe = make_array_suite(tmp_path, **given).runnable_plan.recipe
    assert "sides" not in recipe and find_recipe(recipe).augmentation == "shift"


def test_learning_rate_is_found_once_before_training(tmp_path, capsys):
    rng = np.random.default_rng(0)
    labels = np.arange(48) % 2
    images = rng.normal(0, 4, (48, 3, 8, 8)) + 8 * labels[:, None, None, None]  # makes the default peak diverge
    train = images.astype(np.float32), labels

    def made():
        torch.manual_seed(0)
        plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten())
        return make_array_suite(tmp_path, plain.append(nn.Linear(128, 2)), train, protocols=("morf", "matched"))

    suite, said = made(), make_console()
    first = suite.version
    suite.find_learning_rate_if_missing("morf", said)
    assert suite.version == first and "trying" not in capsys.readouterr().err, "MoRF trains nothing"
    suite.find_learning_rate_if_missing("", said)
    (found,) = re.findall(r"^peak = (\S+) \(three trials of", capsys.readouterr().err, re.MULTILINE)
    assert float(found) < 0.2 and f"peak={found}" in suite.runnable_plan.recipe and suite.version != first
    again = made()
    again.find_learning_rate_if_missing("", said)
    assert again.version == suite.version and "trying" not in capsys.readouterr().err


def test_from_arrays_copies_network_to_float32(tmp_path, capsys):
    usual, given = make_convnet(2).half().float(), make_convnet(2).half()
    suite = make_array_suite(tmp_path, given)
    assert "warning: the network has weights in float16; a copy in float32 is used" in capsys.readouterr().err
    torch.testing.assert_close(compute_logits_of_suite(suite, IMAGES), usual(torch.from_numpy(IMAGES)))
    assert not suite.runnable_plan.left_out


def test_from_arrays_accepts_more_classes_than_labels(tmp_path):
    for labels in (np.array([0, 3, 5, 9] * 3), np.arange(12) % 4):
        given = TRAIN[0], labels
        suite = make_array_suite(tmp_path, make_convnet(10), given, given, protocols=("matched",))
        assert suite.runnable_plan.dataset_record.classes == 10
    assert make_array_suite(tmp_path).runnable_plan.dataset_record.numbered is False, "versions of other suites stay"


def test_from_arrays_needs_training_images_only_for_training(tmp_path):
    given = make_convnet(10), None, TEST
    suite = roarbench.Suite.from_arrays(*given, protocols=("morf", "lerf"), store=tmp_path)
    assert suite.runnable_plan.dataset_record.test_only and "linear-classifier" not in suite.runnable_plan.estimators
    roarbench.evaluate(suite, ["random"], store=tmp_path)
    assert suite.result().stored.suite.estimators == suite.runnable_plan.estimators, "others are not missing"
    words = r"matched trains networks, and there are no training images; .*morf"
    with pytest.raises(roarbench.CallerError, match=words):
        roarbench.Suite.from_arrays(*given, store=tmp_path)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"protocols": ("own-network",)}, r".*explains a single one; roarbench\.own_network_gain\(networks"),
        ({"name": "My suite"}, "name is 'My suite', expected"),
        ({"estimators": ["smothgrad"]}, "no estimator 'smothgrad'; did you mean 'sg-grad'"),
        ({"levels": [3]}, r"levels is \[3\], expected a list"),
        ({"levels": [float("nan")]}, r"levels is \[nan\], expected a list"),
        ({"estimators": "grad"}, r"estimators is 'grad', expected a list; write estimators=\['grad'\]"),
    ],
)
def test_from_arrays_rejects_invalid_arguments_and_leaves_no_files(tmp_path, given, words):
    with pytest.raises(roarbench.CallerError, match=f"^{words}"):
        make_array_suite(tmp_path / "store", make_convnet(10), **{"train": None} | given)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_from_arrays_gives_each_protocol_its_supported_fills(tmp_path):
    suite = make_array_suite(tmp_path, protocols=("matched", "morf"), fills=("linear", "black"))
    assert {(b.protocol.name, b.fill) for b in suite.plan.blocks} == {
        ("matched", "zero"),  # records call black zero
        ("morf", "linear"),
        ("morf", "zero"),
    }
    with pytest.raises(roarbench.CallerError, match="fill 'linear' is too slow"):
        make_array_suite(tmp_path, protocols=("matched",), fills=("linear",))


@pytest.mark.parametrize("hot", [None, 20.0, -1e4])
def test_from_arrays_clips_outlier_pixels(tmp_path, inline, hot, capsys):
    train, labels = np.random.default_rng(0).normal(0, 0.3, (200, 3, 16, 16)).astype(np.float32), np.arange(200) % 2
    test = np.random.default_rng(1).normal(0, 0.3, (20, 3, 16, 16)).astype(np.float32)
    if hot:
        train[5, :, 0, 0] = hot
    suite = make_array_suite(tmp_path, make_convnet(2), (train, labels), (test, labels[:20]))
    widest = 3 * 2 * 0.3 * 3.72 / 255  # three times the middle 99.98 % of a normal distribution, in 255 steps
    told = capsys.readouterr().err
    assert abs(suite.load_test_data().images.numpy() - test).max() < widest
    assert ("3 values of train images are far from all others; they are clipped" in told) == bool(hot)


def test_from_arrays_rejects_test_images_outside_training_range(tmp_path, capsys):
    with pytest.raises(roarbench.CallerError, match=r"50\.4 % of the values of test images lie outside .*clip"):
        make_array_suite(tmp_path, test=(2 * IMAGES, LABELS))
    with pytest.raises(roarbench.CallerError, match=r"test images span 0\.4 % of the range of training images; n"):
        make_array_suite(tmp_path, test=(IMAGES / 255, LABELS))
    whole = 1e-3 * IMAGES
    whole[:, :, 0, 0] = 1000.0  # the same pixel in all images is no outlier, so all other values share one step

    class Fine(nn.Module):
        def forward(self, x):
            mean = 1000 * x[:, :, 1:].mean((1, 2, 3))
            return torch.stack([mean, -mean], 1)

    make_array_suite(tmp_path, Fine(), (whole, LABELS), (whole, LABELS))
    assert " of 6 test images; remove extreme values" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (nn.Softmax(1), "warning: the network returns probabilities instead of logits"),
        (nn.LogSoftmax(1), "warning: the network returns logarithms of probabilities instead of logits"),
        (nn.Identity(), ""),
    ],
)
def test_from_arrays_warns_of_networks_that_return_probabilities(tmp_path, capsys, last, said):
    make_array_suite(tmp_path, nn.Sequential(make_convnet(2), last))
    told = " ".join(capsys.readouterr().err.split())
    assert said in told and ("instead of logits" in told) == bool(said)


class WithState(nn.Sequential):
    """A network whose state dict holds more than weights."""

    def __init__(self, model, sparse):
        super().__init__(model)
        self.sparse = sparse

    def get_extra_state(self):
        return torch.eye(2).to_sparse() if self.sparse else {"scale": 2.0}

    def set_extra_state(self, state):
        pass


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"train": (np.zeros((4, 3, 8, 8), np.uint8), [0, 1] * 2)}, "train images .* expected floats"),
        ({"train": (np.zeros((4, 3, 8, 9)), [0, 1] * 2)}, "square"),
        ({"train": (np.zeros((2, 3, 8, 8)), [0, 1] * 2)}, r"labels have shape \(4,\), expected \(2,\)"),
        ({"test": (IMAGES, [0, 1, 2] * 2)}, "test labels are from 0 to 2, and the network has 2 classes"),
        ({"test": (IMAGES[:1], [0])}, "there is 1 test image; an interval needs 2 or more"),
        ({"train": (IMAGES[:1], [0])}, "there is 1 training image; training needs 2 or more"),
        ({"test": IMAGES}, r"test is an ndarray, expected a pair \(images, labels\)"),
        ({"test": (IMAGES[..., :4, :4], [0, 1] * 3)}, r"images have the shapes \(3, 4, 4\) and \(3, 8, 8\)"),
        ({"model": lambda x: x}, "the network is a function"),
        ({"model": make_convnet(2).to("meta")}, "the network is on the device meta, .*; build the network on the CPU"),
        ({"model": WithChangedOutput(make_convnet(2), lambda y: y - y.mean(0))}, "logits alone than in a batch"),
        ({"model": WithState(make_convnet(2), False)}, "'_extra_state' of the state dict .* is a dict, expected"),
        ({"model": WithState(make_convnet(2), True)}, "is a sparse or quantised tensor, expected"),
    ],
)
def test_from_arrays_rejects_unusable_images_labels_or_networks(tmp_path, given, words):
    with pytest.raises(roarbench.CallerError, match=words):
        make_array_suite(tmp_path, **given)


def test_from_arrays_warns_of_test_images_that_are_training_images(tmp_path, inline, capsys):
    make_array_suite(tmp_path)
    assert "same pixels" not in capsys.readouterr().err
    images, labels = TEST
    images = np.concatenate([images[:4], TRAIN[0][3:5]])
    make_array_suite(tmp_path, test=(images, labels))
    said = " ".join(capsys.readouterr().err.split())
    words = "2 of 6 test images have the same pixels as a training image, such as test image 4; delete repeated images"
    assert f"warning: {words}" in said


def test_from_arrays_warns_of_labels_in_another_order_than_the_classes(tmp_path, capsys):
    """Names sorted as text put class 10 before class 2."""

    class Brightest(nn.Module):
        def forward(self, x):
            return 9 * x.mean((2, 3))

    images = np.random.default_rng(0).normal(size=(60, 3, 8, 8)).clip(-2, 2)
    labels = images.mean((2, 3)).argmax(1)
    for order, said in (((0, 1, 2), 0), ((0, 2, 1), 1)):
        make_array_suite(tmp_path, Brightest(), train=None, test=(images, np.array(order)[labels]))
        told = " ".join(capsys.readouterr().err.split())
        assert len(re.findall("warning: .* for 60 if its classes are reordered; expected the order of", told)) == said
