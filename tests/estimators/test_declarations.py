"""Declarations of the modules in `families`: each test runs over all estimators and names the incomplete one."""

import copy
import json
from pathlib import Path

import pytest
import torch

from roarbench.compute.networks import build_network
from roarbench.compute.pass_counter import PassCounter
from roarbench.estimators.catalogue import ESTIMATORS, count_passes, find_estimator
from roarbench.estimators.estimator import Batch, ClassImages, find_paper
from roarbench.estimators.ids import PARAMETERS
from tests.helpers.networks import CountingPasses, importance
from tests.helpers.processes import ROOT, run_python
from tests.helpers.trainings import seeded

FINGERPRINTS = json.loads(Path(__file__).with_name("fingerprints.json").read_text())
MAPPED = [row for row in ESTIMATORS.values() if row.has_own_map]
BRIEF = {"samples": "3", "steps": "3", "patches": "3"}  # small values, so that a map takes milliseconds


def shorten_id(row):
    """The ID of this estimator with few samples, steps and patches."""
    values = ",".join(f"{name}={BRIEF[name]}" for name in row.parameters if name in BRIEF)
    return f"{row.id}({values})" if values else row.id


def make_table_case():
    """A perceptron, and a batch of two table rows with six columns and templates of three classes."""
    model, drawn = build_network("mlp", 3, 6, 1, seeded(0)).eval(), torch.randn(2, 2, 6, 1, 1, generator=seeded(1))
    classes = ClassImages(*torch.randn(2, 3, 6, 1, 1, generator=seeded(2)))
    return model, Batch(drawn[0], torch.tensor([0, 2]), torch.tensor([3, 4]), drawn[1], classes)


@pytest.mark.parametrize("row", ESTIMATORS.values(), ids=lambda row: row.id)
def test_estimator_declaration_is_complete(row):
    assert row.title and row.title == row.title.strip()
    assert row.about and not row.about.endswith(".")
    assert row.papers is not None, "declare papers=() for an unpublished estimator"
    assert all(find_paper(key).text for key in row.papers)
    assert row.neighbours is not None, "declare whether the estimator needs neighbouring features"
    assert (row.maps is None) == (row.uses_shared_pass or not row.has_own_map), "declare maps=, the function"
    assert (row.cost is None) == (row.control or row.uses_shared_pass), "declare cost=, the passes per image"
    assert set(row.parameters) <= set(PARAMETERS), "parameters must be in the table of ids.py"
    source_file = ROOT / f"{row.module.replace('.', '/')}.py"
    assert f'"{row.id}"' in source_file.read_text(), "module= must be the file that declares the estimator"


def test_declarations_do_not_import_torch():
    program = """
import sys
sys.modules |= dict.fromkeys(("torch", "torchvision", "captum"))  # to import one of these is an error
import roarbench.estimators.catalogue, roarbench.plan.suite_template
"""
    run_python(program)


@pytest.mark.parametrize("row", MAPPED, ids=lambda row: row.id)
def test_maps_are_reproducible_and_take_declared_passes(row, model, batch):
    if row.most_features:
        model, batch = make_table_case()
    asked, before, weights = shorten_id(row), batch.images.clone(), copy.deepcopy(model.state_dict())
    counting = CountingPasses(model).eval()
    # the first maps of a network take more passes, which search for the layer or compare logits
    if tried := "gradcam" if row.module.endswith(".cam") else row.id if row.id == "deeplift" else "":
        importance(tried, counting, batch)
        counting.forwards = counting.backwards = 0
    found = importance(asked, model if row.traces_network else counting, batch)
    if row.cost and not row.traces_network:
        cost = count_passes([find_estimator(asked)], batch.images[0].numel())
        cost = (1 + 64, 0) if row.id == "score-cam" else cost  # of 64 channels
        declared = tuple(len(batch.ids) * count for count in cost)
        if row.is_search:  # it stops at once where it has changed the prediction
            assert 0 < counting.forwards <= declared[0] and counting.backwards == 0
        else:
            assert (counting.forwards, counting.backwards) == declared
    assert (found.shape, found.dtype) == (batch.images.shape, batch.images.dtype)
    assert found.isfinite().all() and not found.requires_grad
    assert found.std() > 0
    torch.testing.assert_close(importance(asked, model, batch), found, rtol=0, atol=0)
    torch.testing.assert_close(batch.images, before, rtol=0, atol=0)
    torch.testing.assert_close(model.state_dict(), weights, rtol=0, atol=0)
    assert not any(each._forward_hooks or each._backward_hooks for each in model.modules())
    one = importance(asked, model, batch.select_rows(slice(1, 2)))  # a map does not depend on the batch
    torch.testing.assert_close(one, found[1:2], rtol=0, atol=1e-9 * max(1e-3, found.abs().max().item()))


@pytest.mark.parametrize("row", [row for row in MAPPED if row.traces_network], ids=lambda row: row.id)
def test_maps_of_traced_copies_take_declared_passes(row, model, batch):
    """Such an estimator calls a copy of the network layer by layer, so work is counted where layers are computed."""
    importance(row.id, model, batch)  # with the trial of the copy, once for each network
    counter = PassCounter(model, batch.images[:1])
    with counter.count():
        importance(row.id, model, batch)
    assert counter.read_passes() == tuple(len(batch.ids) * count for count in row.cost)


SHORT = [row for row in MAPPED if row.cost and count_passes([row], 432)[0] in (1, 2) and not row.traces_network]


@pytest.mark.parametrize("row", SHORT, ids=lambda row: row.id)
def test_declared_passes_baseline_matches_largest_batch(row, model, batch):
    sizes = []
    with model.register_forward_pre_hook(lambda module, given: sizes.append(len(given[0]))):
        importance(row.id, model, batch)  # with the search for the layer of class activation maps
        sizes.clear()
        importance(row.id, model, batch)
    assert max(sizes) == len(batch.ids) * (2 if row.passes_baseline else 1)


@pytest.mark.parametrize("row", [row for row in MAPPED if not row.neighbours], ids=lambda row: row.id)
def test_estimator_without_neighbours_distinguishes_table_columns(row):
    found = importance(shorten_id(row), *make_table_case())
    assert (found.std(1) > 0).all(), "declare neighbours=True: the map of a table is constant"


# a control that uses the class may use neighbours and yet distinguish columns: see the test before this one
@pytest.mark.parametrize(
    "row",
    [row for row in MAPPED if row.control and not (row.uses_ground_truth or row.uses_prediction)],
    ids=lambda row: row.id,
)
def test_control_declares_neighbours_correctly(row, batch):
    """One pixel changes the map elsewhere; in maps independent of the image, adjacent numbers are similar."""
    other = batch.images.clone()
    other[..., 6, 6] += 1
    found, changed = (importance(row.id, None, batch._replace(images=images)) for images in (batch.images, other))
    negative = importance(row.id, None, batch._replace(images=-batch.images))
    if torch.equal(found, negative) and torch.equal(found, changed):
        beside, apart = (found.diff(dim=3).abs().mean(), (found - found.flip(3)).abs().mean() + found.std())
        assert row.neighbours == bool(beside < 0.5 * apart)
    else:
        elsewhere = (found != changed).any(1)
        elsewhere[:, 6, 6] = False
        # a control that looks at no other pixel of an image may have one number for all columns of a table
        looks = bool(elsewhere.any()) or not importance(row.id, *make_table_case()).std(1).any()
        assert row.neighbours == looks, f"neighbours={looks}: see Estimator"


def test_estimator_fingerprints_equal_stored_ones():
    """Stored rows are found by fingerprint, so a line of the file never changes."""
    assert {name: find_estimator(name).fingerprint for name in FINGERPRINTS} == FINGERPRINTS
    assert len(set(FINGERPRINTS.values())) == len(FINGERPRINTS)
