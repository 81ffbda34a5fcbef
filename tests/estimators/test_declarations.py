"""What a file of `families` declares: one test over all of them, which names the estimator that forgets something."""

import copy
import json
from pathlib import Path

import pytest
import torch

from roarbench.compute.networks import build_network
from roarbench.estimators.catalogue import ESTIMATORS, count_passes, find_estimator
from roarbench.estimators.estimator import Batch, ClassImages
from roarbench.estimators.ids import PARAMETERS
from tests.helpers.networks import CountingPasses, importance
from tests.helpers.streamed import seeded

ROOT = Path(__file__).parents[2]
FINGERPRINTS = json.loads(Path(__file__).with_name("fingerprints.json").read_text())
MAPPED = [row for row in ESTIMATORS.values() if row.has_own_map]
BRIEF = {"samples": "3", "steps": "3", "patches": "3"}  # few, so that a map takes milliseconds


def brief(row):
    """The same estimator with few draws, steps and squares."""
    values = ",".join(f"{name}={BRIEF[name]}" for name in row.parameters if name in BRIEF)
    return f"{row.id}({values})" if values else row.id


def columns():
    """A perceptron, two rows of a table with six columns, and what training rows tell of its three classes."""
    model, drawn = build_network("mlp", 3, 6, 1, seeded(0)).eval(), torch.randn(2, 2, 6, 1, 1, generator=seeded(1))
    classes = ClassImages(*torch.randn(2, 3, 6, 1, 1, generator=seeded(2)))
    return model, Batch(drawn[0], torch.tensor([0, 2]), torch.tensor([3, 4]), drawn[1], classes)


@pytest.mark.parametrize("row", ESTIMATORS.values(), ids=lambda row: row.id)
def test_a_declaration_says_everything(row):
    assert row.title and row.title == row.title.strip()
    assert row.about and not row.about.endswith(".")
    assert row.papers is not None, "say papers=() where it was published nowhere"
    assert all(paper.text and paper.bibtex for paper in row.papers)
    assert row.neighbours is not None, "say whether it needs what lies beside a feature"
    assert (row.maps is None) == (row.uses_shared_pass or not row.has_own_map), "say maps=, the function"
    assert (row.cost is None) == (row.control or row.uses_shared_pass), "say cost=, what an image takes"
    assert set(row.parameters) <= set(PARAMETERS), "of the table in ids.py"
    source_file = ROOT / f"{row.module.replace('.', '/')}.py"
    assert f'"{row.id}"' in source_file.read_text(), "its source is another file"


@pytest.mark.parametrize("row", MAPPED, ids=lambda row: row.id)
def test_maps_are_like_the_images_and_repeat_at_the_declared_cost(row, model, batch):
    if row.most_features:
        model, batch = columns()
    asked, before, weights = brief(row), batch.images.clone(), copy.deepcopy(model.state_dict())
    counting = CountingPasses(model).eval()
    found = importance(asked, model if row.traces_network else counting, batch)
    if row.cost and not row.traces_network:  # the network's own steps: test_rules.py
        cost = (
            (1 + 64, 0) if row.id == "score-cam" else count_passes([find_estimator(asked)], batch.images[0].numel())
        )  # of 64 channels
        assert (counting.forwards, counting.backwards) == tuple(len(batch.ids) * count for count in cost)
    assert (found.shape, found.dtype) == (batch.images.shape, batch.images.dtype)
    assert found.isfinite().all() and not found.requires_grad
    assert found.std() > 0
    torch.testing.assert_close(importance(asked, model, batch), found, rtol=0, atol=0)
    torch.testing.assert_close(batch.images, before, rtol=0, atol=0)
    torch.testing.assert_close(model.state_dict(), weights, rtol=0, atol=0)
    assert not any(each._forward_hooks or each._backward_hooks for each in model.modules())
    one = importance(asked, model, batch.select_rows(slice(1, 2)))  # a map is its image's alone
    torch.testing.assert_close(one, found[1:2], rtol=0, atol=1e-9 * max(1e-3, found.abs().max().item()))


SHORT = [row for row in MAPPED if row.cost and count_passes([row], 432)[0] in (1, 2) and not row.traces_network]


@pytest.mark.parametrize("row", SHORT, ids=lambda row: row.id)
def test_an_estimator_says_whether_a_pass_holds_baselines_beside_the_images(row, model, batch):
    sizes = []
    with model.register_forward_pre_hook(lambda module, given: sizes.append(len(given[0]))):
        importance(row.id, model, batch)
    assert max(sizes) == len(batch.ids) * (2 if row.passes_baseline else 1)


@pytest.mark.parametrize("row", [row for row in MAPPED if not row.neighbours], ids=lambda row: row.id)
def test_what_looks_at_no_neighbours_tells_the_columns_of_a_table_apart(row):
    found = importance(brief(row), *columns())
    assert (found.std(1) > 0).all(), "say neighbours=True: its map of a table says nothing"


# what is told the class may look at neighbours and yet tell columns apart: the test before this one
@pytest.mark.parametrize(
    "row",
    [row for row in MAPPED if row.control and not (row.uses_ground_truth or row.uses_prediction)],
    ids=lambda row: row.id,
)
def test_a_control_looks_at_neighbours_if_it_says_so(row, batch):
    """One pixel changes the map elsewhere, or, where the image has no say, numbers side by side are alike."""
    other = batch.images.clone()
    other[..., 6, 6] += 1
    found, changed = (importance(row.id, None, batch._replace(images=images)) for images in (batch.images, other))
    if torch.equal(found, importance(row.id, None, batch._replace(images=-batch.images))) and torch.equal(
        found, changed
    ):
        beside, apart = (found.diff(dim=3).abs().mean(), (found - found.flip(3)).abs().mean() + found.std())
        assert row.neighbours == bool(beside < 0.5 * apart)
    else:
        elsewhere = (found != changed).any(1)
        elsewhere[:, 6, 6] = False
        looks = bool(elsewhere.any()) or not importance(row.id, *columns()).std(1).any()  # one number for all columns
        assert row.neighbours == looks, f"neighbours={looks}: see Estimator"


def test_fingerprints_stay():
    """Stored rows are found by them: a line of the file never changes."""
    assert {name: find_estimator(name).fingerprint for name in FINGERPRINTS} == FINGERPRINTS
    assert len(set(FINGERPRINTS.values())) == len(FINGERPRINTS)
