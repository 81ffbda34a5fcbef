"""What a name stands for never changes: recipes and networks that results were made with.

A test that fails here means that stored results would no longer be what their names say. A change of a recipe is a
new version of it, a change of a network a new name; their lines are added to `frozen.json`, by

    python tests/test_frozen.py

which adds what is not there and never changes a line.
"""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from roarbench.identity import fingerprint, record
from roarbench.models import MODELS
from roarbench.models.build import build
from roarbench.plan.recipe import Recipe
from roarbench.plan.recipes import RECIPES

FILE = Path(__file__).with_name("frozen.json")
FROZEN = json.loads(FILE.read_text())
FIELDS = (  # of a recipe; one that is added later counts where it is not at its default
    *("name", "version", "epochs", "batch", "peak", "warmup", "decay", "augmentation", "precision"),
    *("momentum", "weight_decay", "smoothing", "sides", "micro_batch"),
)


def recipe_hash(recipe: Recipe) -> str:
    return fingerprint({name: getattr(recipe, name) for name in FIELDS} | record(recipe))


def network(name: str) -> dict[str, object]:
    """Names and shapes of all that is stored of a network, and its three logits for one image."""
    model = build(name, 3, 3, 32, torch.Generator().manual_seed(0)).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)  # the last of a block begin at 0, and nothing of the block would count
    shapes = {key: list(tensor.shape) for key, tensor in model.state_dict().items()}
    with torch.inference_mode():
        logits = model(torch.linspace(-2, 2, 3 * 32 * 32).reshape(1, 3, 32, 32).sin())[0]
    return {"shapes": fingerprint(shapes), "logits": [float(f"{logit:.6g}") for logit in logits.tolist()]}


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_is_what_it_was(title: str) -> None:
    assert recipe_hash(RECIPES[title]) == FROZEN["recipes"][title]


@pytest.mark.parametrize("name", MODELS)
def test_a_network_is_what_it_was(name: str) -> None:
    found = network(name)
    assert found["shapes"] == FROZEN["networks"][name]["shapes"]
    expected = torch.tensor(FROZEN["networks"][name]["logits"])
    logits = torch.tensor(found["logits"])
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=0)  # processors round differently


def test_nothing_that_results_may_have_been_made_with_is_gone() -> None:
    assert set(FROZEN["recipes"]) <= set(RECIPES)
    assert set(FROZEN["networks"]) <= set(MODELS)


if __name__ == "__main__":
    recipes = {title: recipe_hash(recipe) for title, recipe in RECIPES.items()} | FROZEN["recipes"]
    networks = {name: network(name) for name in MODELS} | FROZEN["networks"]
    FILE.write_text(json.dumps({"recipes": recipes, "networks": networks}, indent=1, sort_keys=True) + "\n")
