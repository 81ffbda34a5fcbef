"""Recipes, suites and networks never change under a published name.

A failing test means that stored results would no longer match their names. A changed recipe or suite needs a new
version, a changed network a new name. New entries are added to `frozen.json` by

    python tests/test_frozen.py

which adds missing entries and never changes a line.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from torch import nn

from roarbench.common.enums import PAPER_LEVELS
from roarbench.common.identity import hash_value, make_json_record
from roarbench.compute.builtin_network_table import MODELS
from roarbench.compute.networks import build_network
from roarbench.plan.recipes import RECIPES
from roarbench.plan.suites import SUITE_VERSIONS, find_builtin_suite

FILE = Path(__file__).with_name("frozen.json")
FROZEN = json.loads(FILE.read_text())
FIELDS = (  # of a recipe; later fields count unless they have their default
    *("name", "version", "epochs", "batch", "peak", "warmup", "decay", "augmentation", "precision"),
    *("momentum", "weight_decay", "smoothing", "sides", "micro_batch"),
)
LATER = (  # fields of suites, which count where they are used
    *(("given", ""), ("maps", "float32"), ("references", 1), ("replication", 0), ("own", None)),
    *(("tuned_on", "train"), ("added", frozenset()), ("networks", ()), ("changes", ("", None, ()))),
)


def hash_suite(suite):
    """Hash all fields of a suite that change its results."""
    everything = asdict(replace(suite, about=""))
    for block, asked in zip(everything["blocks"], suite.blocks, strict=True):
        protocol = asked.protocol  # the kind of pairing was added later and follows from the name
        paired = [True] if protocol.compares_with_other_image else []
        block["protocol"] = (protocol.name, protocol.order, protocol.retrain, *paired)
    return hash_value({name: value for name, value in everything.items() if (name, value) not in LATER})


def describe_network(name):
    """Return a hash of names and shapes of a network's tensors, and its three logits for one image."""
    model = build_network(name, 3, 3, 32, torch.Generator().manual_seed(0)).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)  # the last weights of a block begin at 0 and would hide the block
    shapes = {key: list(tensor.shape) for key, tensor in model.state_dict().items()}
    with torch.inference_mode():
        logits = model(torch.linspace(-2, 2, 3 * 32 * 32).reshape(1, 3, 32, 32).sin())[0]
    return {"shapes": hash_value(shapes), "logits": [float(f"{logit:.6g}") for logit in logits.tolist()]}


HASHES = {
    "recipes": {
        title: hash_value({name: getattr(recipe, name) for name in FIELDS} | make_json_record(recipe))
        for title, recipe in RECIPES.items()
    },
    "suites": {f"{name}@{version}": hash_suite(suite) for (name, version), suite in SUITE_VERSIONS.items()},
}


@pytest.mark.parametrize("kind", HASHES)
def test_recipes_and_suites_equal_frozen_hashes(kind):
    assert HASHES[kind] == FROZEN[kind]


def test_stored_ranking_levels_equal_levels_of_paper():
    """Rankings of suites with other levels store these, too; Hooker et al. 2019, section 4."""
    assert {block.levels for block in find_builtin_suite("imagenet-paper").blocks} == {PAPER_LEVELS}


@pytest.mark.parametrize("name", {**MODELS, **FROZEN["networks"]})
def test_network_equals_frozen_record(name):
    found, frozen = describe_network(name), FROZEN["networks"][name]
    assert found["shapes"] == frozen["shapes"]
    logits, expected = torch.tensor(found["logits"]), torch.tensor(frozen["logits"])
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=0)  # processors round differently


if __name__ == "__main__":
    made = HASHES | {"networks": {name: describe_network(name) for name in MODELS.keys() - FROZEN["networks"].keys()}}
    whole = {kind: held | FROZEN[kind] for kind, held in made.items()}
    FILE.write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n")
