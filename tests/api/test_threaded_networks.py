"""Networks copied for threads: same tables as one thread, and no copy that changes logits or runs in two threads."""

import threading
import time

import numpy as np
import pytest
import torch
from torch import nn

import roarbench as rb
from roarbench.api.explainers import make_batch_per_network, split_into_batches
from roarbench.api.read_explainers import read_explainers
from roarbench.api.score_maps import ThreadedNetworks

LABELS = np.arange(8) % 2
NAMES = ("grad", "gb", "sg-grad", "gradcam", "deeplift", "lrp")
IMAGES = torch.randn(8, 2, 8, 8, generator=torch.Generator().manual_seed(1)) + 0.3


class Net(nn.Module):
    """A residual network with ReLUs in place."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(inplace=True))
        self.branch = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6))
        self.last, self.relu = nn.Linear(6, 2), nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.first(x)
        return self.last(self.relu(x + self.branch(x)).mean((2, 3)))


def make_network(seed):
    """Return a network that predicts both classes; other seeds change its weights a little."""
    torch.manual_seed(0)
    network = Net().eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in network.parameters():
            weight += 0.1 * torch.randn(weight.shape) * weight.abs().mean()
        network.last.bias -= network(IMAGES).mean(0)
    return network


@pytest.fixture
def networks():
    return [make_network(seed) for seed in range(3)]


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr("roarbench.api.explainers._EXPLAINED_PIXELS", 3 * 64)


def make_tables(networks, estimators):
    gains = rb.own_network_gain(networks, IMAGES, estimators, levels=(0.2, 0.5))
    checked = rb.check(networks[0], IMAGES, LABELS, estimators, networks[1:], levels=(0.2, 0.5))
    return [gains.to_dataframe(), checked.intervals_to_dataframe(), checked.own_network.to_dataframe()]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 7, 8])
@pytest.mark.parametrize("pixels", [1, 3 * 64])
def test_networks_get_no_batch_of_one_image(networks, monkeypatch, pixels, n):
    monkeypatch.setattr("roarbench.api.explainers._EXPLAINED_PIXELS", pixels)
    parts = split_into_batches(IMAGES[:n], networks)
    assert [row for part in parts for row in range(n)[part]] == [*range(n)]
    assert min(part.stop - part.start for part in parts) >= min(2, n)


def test_copies_share_frozen_weights_but_no_modules(networks, threads):
    copies = ThreadedNetworks.copy_for_each_thread(networks, IMAGES).copies
    assert len(copies) == threads
    for copied in copies[1:]:
        for network, other in zip(networks, copied, strict=True):
            torch.testing.assert_close(other(IMAGES), network(IMAGES))
            assert other.last.weight.data_ptr() == network.last.weight.data_ptr()  # memory
            assert not any(each.requires_grad for each in other.parameters())
            assert all(each.requires_grad for each in network.parameters())
    modules = [id(part) for copied in copies for each in copied for part in each.modules()]
    assert len(modules) == len(set(modules))


def test_maps_of_batch_match_maps_of_single_images(networks):
    """DeepLIFT gets half of a batch at a time; the other estimator shares the call."""
    explainers = read_explainers(["deeplift", "input-x-grad"], IMAGES, 1)
    (asked,) = make_batch_per_network(networks[:1], IMAGES[:3], networks[0](IMAGES[:3]).argmax(1), torch.arange(3))
    rows, sizes = list(explainers.built_in.values()), []
    with networks[0].register_forward_pre_hook(lambda module, given: sizes.append(len(given[0]))):
        whole = explainers._make_maps(rows, asked)
    assert max(sizes) == 4, "two images with their baselines"
    for number in range(3):
        one = slice(number, number + 1)
        part = {field: getattr(asked, field)[one] for field in ("images", "targets", "rows", "ids")}
        for name, maps in explainers._make_maps(rows, asked._replace(**part)).items():
            torch.testing.assert_close(whole[name][one], maps, rtol=1e-3, atol=1e-4 * float(maps.abs().max()))


@pytest.mark.filterwarnings("ignore:more than 50% of the features in the maps of gradcam")
@pytest.mark.parametrize("threads", [2], indirect=True)
def test_threaded_tables_match_single_thread(networks, threads, small_batches):
    fast = make_tables(networks, NAMES)
    torch.set_num_threads(1)
    for one, other in zip(fast, make_tables(networks, NAMES), strict=True):
        numbers = one.select_dtypes("number").columns
        one, other = (each.set_index(each.columns[0]).sort_index(kind="stable") for each in (one, other))
        np.testing.assert_allclose(one[numbers].astype(float), other[numbers].astype(float), atol=1e-9)


def test_map_gives_each_thread_own_copies_and_takes_items_while_all_pause(networks, threads):
    working, most, taken = [], 0, []

    def work(copies, number):
        nonlocal most
        assert id(copies) not in working
        working.append(id(copies))
        most = max(most, len(working))
        time.sleep(0.03 if number % 5 == 0 else 0.002)
        assert torch.get_num_threads() == 1
        working.remove(id(copies))
        return number

    def take():
        for number in range(21):
            taken.append(len(working))
            yield number

    team = ThreadedNetworks.copy_for_each_thread(networks, IMAGES)
    assert list(team.map(work, take())) == list(range(21))
    assert (most, torch.get_num_threads(), set(taken)) == (threads, threads, {0})
    with pytest.raises(ZeroDivisionError):
        list(team.map(lambda used, item: 1 / item, range(5)))
    assert torch.get_num_threads() == threads


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", ["hook", "script", "closure"])
@pytest.mark.parametrize("threads", [2], indirect=True)
def test_uncopyable_network_runs_in_calling_thread(networks, kind, threads):
    if kind == "hook":
        networks[1].first[1].register_forward_hook(lambda module, inputs, output: None)
    elif kind == "closure":  # a copy would share it
        networks[1].forward = lambda x: networks[1].last(networks[1].first(x).mean((2, 3)))
    else:
        networks[1] = torch.jit.trace(networks[1], IMAGES[:2])
    team = ThreadedNetworks.copy_for_each_thread(networks, IMAGES)
    assert len(team.copies) == 1 and team.copies[0][1] is networks[1]
    assert list(team.map(lambda used, item: threading.current_thread(), [0, 1])) == [threading.main_thread()] * 2


@pytest.mark.filterwarnings("ignore:the maps of .* are the same for all networks")
@pytest.mark.parametrize("threads", [2], indirect=True)
def test_user_functions_run_in_calling_thread_on_original_network(networks, threads, small_batches):
    seen = set()

    def mine(model, images, targets):
        seen.add((model in networks, threading.current_thread(), torch.get_num_threads()))
        return images

    make_tables(networks, {"mine": mine, "grad": "grad", "lrp": "lrp"})
    assert seen == {(True, threading.main_thread(), threads)}
    parts = [part for network in networks for part in network.modules()]
    assert not any(part._forward_hooks or part._forward_pre_hooks or part._backward_hooks for part in parts)
