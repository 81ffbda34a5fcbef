"""Blind searches in `own_network_gain` and `check`: the simplest map that fakes an explanation is a search."""

import re
from pathlib import Path

import pytest
import torch
from captum.attr import IntegratedGradients
from torch import nn

import roarbench as rb
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import Batch, MapInput
from roarbench.estimators.families.search import search_by_length
from roarbench.stats.verdicts import judge_comparisons

CORNERS = (0, 5, 30, 35)  # pixels of 6 x 6, one per network
LABELS = torch.arange(200) % 2


def make_reader(pixel):
    """A network of images with mean 0 that reads the class from one pixel; without this pixel it says class 1."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(36, 2)).eval()
    weights = torch.linspace(0.001, 0.002, 36).index_fill(0, torch.tensor(20), 0.003)  # second in every map
    weights[pixel] = 3.0
    network.load_state_dict({"1.weight": torch.stack([-weights, weights]), "1.bias": torch.tensor([-0.2, 0.2])})
    return network


def draw_images():
    drawn = torch.rand(200, 1, 6, 6, generator=torch.Generator().manual_seed(0)) + LABELS[:, None, None, None]
    return drawn - drawn.mean()


def disguise(length, name="search"):
    """A function that returns the map of a search, with other draws, under another name."""

    def explain(model, inputs, targets):
        batch = Batch(inputs, targets, torch.arange(len(inputs)))
        with torch.no_grad():
            return search_by_length(MapInput(find_estimator(name), batch, torch.zeros(1, 1, 1), model), [length])[0]

    return explain


def read_weights(model, inputs, targets):
    """The truth, without any pass of the network."""
    return model[1].weight[1].view(1, 1, 6, 6).expand_as(inputs)


@pytest.mark.filterwarnings("ignore:an image's map by")
def test_search_under_another_name_is_no_more_than_a_search():
    networks, images = [make_reader(pixel) for pixel in CORNERS], draw_images()
    rows = {
        "mine": disguise(20),
        "truth": read_weights,
        "arrays": [read_weights(network, images, None) for network in networks],
        "search": "search(passes=20)",
        "centre": "centre",
    }
    found = rb.own_network_gain(networks, images, rows, levels=[0.05])
    assert {name: str(verdict) for name, verdict in found.verdicts.items()} == {
        "mine": "no more than a search",
        "truth": "explains its network",
        "arrays": "above a shorter search",  # nobody knows how many passes made them
        "search": "control",
        "centre": "0 by construction",
    }
    assert 0 < found.passes["mine"] <= 20 and (found.passes["truth"], found.passes["arrays"]) == (0, None)
    assert "must gain more than a blind search" in found.caption
    alone = rb.own_network_gain(networks, images, {"mine": disguise(20)}, levels=[0.05])
    assert str(alone.verdicts["mine"]) == "above 0", "a search in disguise does not explain a network"
    assert "not with a blind search" in alone.caption and not alone.passes


@pytest.mark.filterwarnings("ignore:an image's map by")
def test_passes_of_kept_maps_are_counted():
    """The trial of a function had the images on which its passes are counted."""
    networks, images = [make_reader(pixel) for pixel in CORNERS], draw_images()[:16]
    kept, own = {}, {image.numpy().tobytes() for image in images}

    def keep_maps(model, inputs, targets):
        for image in inputs:
            if (key := (id(model), image.numpy().tobytes())) not in kept:
                five = sum(model(image[None])[0, 1] for _ in range(5)).detach()
                kept[key] = five * read_weights(model, image[None], None)
        return torch.cat([kept[id(model), image.numpy().tobytes()] for image in inputs])

    def refuse_others(model, inputs, targets):
        assert all(image.numpy().tobytes() in own for image in inputs), "no map of this image"
        return read_weights(model, inputs, targets)

    rows = {"kept": keep_maps, "others": refuse_others, "search": "search(passes=2)"}
    for _ in range(2):  # the second call finds all maps of the first
        passes = rb.own_network_gain(networks, images, rows, levels=[0.05]).passes
        assert passes == {"kept": 5, "others": None, "search": 2}


def test_search_of_readme_has_the_passes_of_its_rows():
    """Beside a shorter search no row of the example could be shown to explain its network."""
    page = (Path(rb.__file__).parents[1] / "README.md").read_text("utf-8")
    length = int(re.search(r'"ig": IntegratedGradients, .*search\(passes=(\d+)\)', page)[1])
    networks, rows = (
        [make_reader(pixel) for pixel in CORNERS],
        {"ig": IntegratedGradients, "search": "search(passes=2)"},
    )
    assert rb.own_network_gain(networks, draw_images()[:20], rows, levels=[0.05]).passes["ig"] <= length


@pytest.mark.filterwarnings("ignore:an image's map by")
def test_table_in_lerf_order_compares_with_searches_for_this_order():
    """Beside a search for masks that change predictions, a search for masks that keep them would explain networks."""
    networks, images = [make_reader(pixel) for pixel in CORNERS], draw_images()
    lerf = "search(passes=20,order=lerf)"
    rows = {"mine": disguise(20, lerf), "usual": "search(passes=20)"}
    alone, beside = (
        rb.own_network_gain(networks, images, each, order="lerf", levels=[0.5]) for each in (rows, {**rows, lerf: lerf})
    )
    assert {name: str(verdict) for name, verdict in alone.verdicts.items()} == {"mine": "above 0", "usual": "control"}
    assert "not with a blind search, search(order=lerf)." in alone.caption
    assert {name: str(verdict) for name, verdict in beside.verdicts.items()} == {
        "mine": "no more than a search",
        "usual": "control",
        lerf: "control",
    }
    assert beside.passes["mine"] == 20 and "must gain more than a blind search" in beside.caption
    assert beside.gains[lerf].gain.value > 10


def test_check_compares_with_search():
    networks, images = [make_reader(pixel) for pixel in CORNERS], draw_images()
    found = rb.check(
        networks[0], images, LABELS, {"truth": read_weights, "search": "search"}, networks[1:], fills=["mean"]
    )
    assert str(found.own_network.verdicts["search"]) == "control"
    assert found.own_network.passes["truth"] == 0 and found.own_network.passes["search"] == 32


@pytest.mark.filterwarnings("ignore:an image's map by")
def test_comparisons_have_the_verdicts_of_the_table_whatever_rows_are_called():
    """`random` and `0` are ids of suites; here they are names of functions. A search is in a column of its own."""
    networks, images = [make_reader(pixel) for pixel in CORNERS], draw_images()
    names = ("random", "0", "sobel", "sobel~untrained")
    rows = dict(zip(names, (read_weights, disguise(3), disguise(9), disguise(5)), strict=True))
    plain = dict(zip("abcd", rows.values(), strict=True))
    extra = {"search": "search(passes=20)", "centre": "centre"}
    odd, usual = (rb.own_network_gain(networks, images, of | extra, levels=[0.05]) for of in (rows, plain))
    assert list(odd.verdicts.values()) == list(usual.verdicts.values())
    for name, other in zip(rows, plain, strict=True):
        found = odd.compare(name, "centre")
        assert found[:5] == usual.compare(other, "centre")[:5] and not found.planned
        assert (found.verdict == "better") == (odd.verdicts[name] not in ("not shown", "opposes it"))
        assert odd.compare("centre", name).p_adjusted == found.p_adjusted
    assert odd.compare("random", "0")[:5] == usual.compare("a", "b")[:5] and odd.compare("random", "0").planned
    beside_zero = judge_comparisons({name: odd.gains[name].gain for name in rows})
    in_column = odd.compare("0", "centre")
    assert (in_column.p, in_column.p_adjusted) == beside_zero["0"][1:3], "searches do not change it"
