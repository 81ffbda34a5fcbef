"""A suite of a network and arrays: both come back from the store as they were."""

import numpy as np
import pytest
import torch

import roarbench
from roarbench.api.arrays import network_file
from roarbench.models.build import build
from tests.helpers.given import arrays, network


@pytest.fixture(scope="module")
def own(tmp_path_factory, inline):
    store = tmp_path_factory.mktemp("arrays")
    settings = {"protocols": ("morf",), "estimators": ("grad",), "levels": (0.5,), "store": store}
    return roarbench.Suite.from_arrays(network(), arrays(12, 0), arrays(6, 1), **settings)


def test_the_network_is_built_again_from_its_file_with_other_weights():
    source = network_file(network())
    made = [build("own.network@0", 2, 3, 8, torch.Generator().manual_seed(seed), source) for seed in (1, 1, 2)]
    one, again, other = (model.state_dict() for model in made)
    shapes, expected = ({name: value.shape for name, value in own.items()} for own in (one, network().state_dict()))
    assert shapes == expected
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["0.factor"], other["0.factor"]) and not torch.equal(one["1.weight"], other["1.weight"])
    assert torch.equal(one["2.running_mean"], torch.zeros(4))


def test_the_reference_is_the_network_itself_on_the_images_as_they_were(own):
    (reference,) = own.references
    images, labels = arrays(6, 1)
    torch.testing.assert_close(own.test.images, torch.from_numpy(images), atol=0.02, rtol=0)  # a step is 2 / 255
    assert own.test.labels.tolist() == labels.tolist()
    torch.testing.assert_close(reference.model(own.test.images), network().eval()(own.test.images))


@pytest.mark.slow
def test_it_runs(own):
    result = roarbench.evaluate(own, quiet=True)
    assert {"grad", "random"} <= set(result.to_dataframe()["name"])
    assert result.to_dataframe().attrs["protocol"] == "morf"
    kept = roarbench.load("mine", own.store, reference=own.fitted.given).result(["grad"])  # by its name, as a command
    assert list(kept.to_dataframe()["name"]) == ["grad"]


def test_arrays_that_are_no_images_are_refused_in_words(tmp_path):
    labels = [0, 1, 0, 1]
    for images, words in (
        (np.zeros((4, 3, 8, 8), np.uint8), "expected floats"),
        (np.zeros((4, 3, 8, 9)), "square"),
        (np.full((4, 3, 8, 8), np.nan), "NaN"),
        (np.zeros((2, 3, 8, 8)), r"labels have shape \(4,\), expected \(2,\)"),
    ):
        with pytest.raises(roarbench.CallerError, match=words):
            roarbench.Suite.from_arrays(network(), (images, labels), arrays(6, 1), store=tmp_path)
