"""`check`: each column against the steps of this package one by one, controls, siblings, and the sentence."""

import numpy as np
import pytest
import torch

import roarbench as rb
from roarbench.api.check import CheckTable
from roarbench.api.explainers import Explained, read_explainers
from roarbench.api.removal import ids_of
from roarbench.errors import CallerError
from roarbench.stats.bootstrap import Sample


@pytest.fixture(scope="module")
def images():
    return torch.randn(40, 2, 6, 6, generator=torch.Generator().manual_seed(1)) + 0.5


LABELS = np.arange(40) % 2


def gradient(model, images, targets):
    x = images.requires_grad_()
    model(x).gather(1, targets[:, None]).sum().backward()
    return x.grad


@pytest.fixture(scope="module")
def table(networks, images):
    return rb.check(networks[0], images, LABELS, {"mine": gradient}, networks[1:], levels=(0.2, 0.5))


def slow_gain(model, images, maps, random, order, levels, fill):
    """Follow accuracy level by level, and take the area by the trapezoid rule."""

    def area(of):
        whole = torch.as_tensor(LABELS)
        accuracy = [float((model(images).argmax(1) == whole).double().mean())]
        for t in levels:
            left = rb.remove(images, of, t, order)
            if fill == "linear":
                accuracy.append(rb.curve(model, images, LABELS, of, order, (t,), "linear").accuracy[1].value)
            else:
                accuracy.append(float((model(left).argmax(1) == whole).double().mean()))
        return np.trapezoid(accuracy, (0.0, *levels)) / levels[-1]

    return 100 * (area(random) - area(maps)) * (1 if order == "morf" else -1)


@pytest.mark.parametrize(("fill", "levels"), [("mean", (0.2, 0.5)), ("linear", (0.5,))])
@pytest.mark.parametrize("order", ["morf", "lerf"])
def test_a_column_is_the_gain_over_random(networks, images, table, order, fill, levels):
    model = networks[0]
    targets = model(images).argmax(1)
    maps = gradient(model, images.clone(), targets)
    asked = Explained(0, model, images, targets, torch.arange(len(images)), ids_of(images))
    random = read_explainers("random", images, 1)["random"](asked)
    expected = slow_gain(model, images, maps, random, order, levels, fill)
    assert table.gain(f"{order} {fill}", "mine").value == pytest.approx(expected)
    assert table.gain(f"{order} {fill}", "random") == (0.0, None, None)


def test_own_network_gain_is_that_of_its_own_call(networks, images, table):
    alone = rb.own_network_gain(networks, images, {"mine": gradient})
    assert table.agreed == alone.images
    assert table.gain("own network", "mine").value == pytest.approx(alone.gain("mine").value)
    assert table.gain("own network", "sobel") == (0.0, None, None)


def test_maps_are_made_once_for_each_network(networks, images):
    asked = []

    def counting(model, inputs, targets):
        asked.extend(inputs)
        return gradient(model, inputs, targets)

    rb.check(networks[0], images, LABELS, {"mine": counting}, networks[1:], levels=(0.2, 0.5))
    assert len(asked) == 3 * 40


def test_text_names_rows_columns_and_the_sentence(table, tmp_path):
    lines = repr(table).splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["estimator", "random", "sobel", "mine"]
    assert "own network" in lines[0] and "leads morf mean" in lines[4] and "<table" in table._repr_html_()
    assert len(table.to_dataframe()) == 3 and len(table.to_dataframe().columns) == 1 + 3 * 5
    table.plot(tmp_path / "check.png")
    assert (tmp_path / "check.png").stat().st_size > 5000


def test_the_sentence_tells_where_columns_disagree():
    noise = np.random.default_rng(0).normal(size=(2, 2000))

    def column(a, b):
        return {"a": Sample(a, a + noise[0]), "b": Sample(b, b + noise[1])}

    against = CheckTable({"x": column(9, 0), "y": column(0, 9)}, {"x": (0.5,), "y": (0.5,)}, 9)
    assert against.reversed == [("a", "b")]
    assert against.disagreement.startswith("a leads x, b leads y; 1 pair of rows change")
    unclear = CheckTable({"x": column(9, 0), "y": column(0, 1)}, {"x": (0.5,), "y": (0.5,)}, 9)
    assert "no pair of rows changes" in unclear.disagreement
    tied = CheckTable({"x": column(0, 0), "y": column(0, 1)}, {"x": (0.5,), "y": (0.5,)}, 9)
    assert tied.disagreement.startswith("no row alone leads x, b leads y; ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"siblings": 1}, "there is 1 sibling, expected none or 2 and more"),
        ({"fills": "mean"}, "write fills="),
        ({"fills": ("best",)}, "fill 'best'"),
        ({"levels": (30,)}, "30 % is written 0.3"),
        ({"labels": LABELS + 1}, "write labels - 1"),
    ],
)
def test_refuses(networks, images, change, words):
    asked = {"labels": LABELS, **change}
    asked["siblings"] = networks[: asked.get("siblings", 0)]
    with pytest.raises(CallerError, match=words):
        rb.check(networks[0], images, asked.pop("labels"), "grad", **asked)
