"""The pipeline equals the slow pipeline: removed features, training inputs, and correctness."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.fx import GraphModule
from torch.nn.modules.module import register_module_forward_pre_hook

from roarbench.common.enums import Precision, ScoredNetwork, Split, Unit
from roarbench.compute.degraded_images import DegradedImages
from roarbench.compute.masks import compute_smoothness_vs_random
from roarbench.compute.networks import SmallResNet
from roarbench.compute.prediction import Normalisation
from roarbench.compute.recipe import Augmentation, Decay, Recipe
from roarbench.compute.train import fit
from roarbench.execution.job_graph import build_job_graph
from roarbench.plan.protocols import KAR, LERF, MASK_ONLY, MORF, ROAR
from roarbench.plan.recipes import RECIPES
from roarbench.plan.suite import Block
from tests.helpers import slow_pipeline as slow
from tests.helpers.tiny_suite import SUITE, TEST, TRAIN, make_runs, make_work

pytestmark = pytest.mark.slow

RECIPE = Recipe("slow", 1, 8, 8, 0.2, 1, Decay.LINEAR, Augmentation.NONE, precision=Precision.FLOAT32)
CASES = replace(
    SUITE,
    recipe=RECIPE.title,
    reference_recipe=RECIPE.title,
    blocks=(
        Block(ROAR, ("truth", "grad"), (0.1, 0.9), seeds=1),
        Block(KAR, ("grad",), (0.7,), seeds=2),
        Block(MASK_ONLY, ("truth",), (0.3,), seeds=1),
        Block(MORF, ("random", "grad"), (0.5,), seeds=1),
        Block(LERF, ("truth-inverted", "grad"), (0.3,), seeds=1),
        Block(ROAR, ("grad",), (0.3,), seeds=1, unit=Unit.PIXEL),
        Block(KAR, ("truth",), (0.7,), seeds=1, unit=Unit.PIXEL),
    ),
)
ONES = Normalisation((0.0,) * 3, (1.0,) * 3)  # of inputs that are normalised
COUNTS, FIRST_ID = {"train": TRAIN, "test": TEST}, {"train": 0, "test": 2**32}
SHAPE = (3, 8, 8)


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
    """Results and network inputs of the pipeline by run, None for the explained network.

    A hook records training inputs at each step, and test inputs with the copies that fill the last batch.
    """
    given = []

    def note(module, inputs):
        if isinstance(module, SmallResNet | GraphModule):  # scoring has a copy with folded batch norms
            given.append((module.training, inputs[0].detach().numpy().copy()))

    with pytest.MonkeyPatch.context() as patch, register_module_forward_pre_hook(note):
        patch.setitem(RECIPES, RECIPE.title, RECIPE)
        work = make_work(tmp_path_factory.mktemp("slow"), CASES)
        made = SimpleNamespace(work=work, scored={}, training={}, tested={})
        make_ties(made.work)
        for step in build_job_graph(made.work, make_runs(made.work, CASES)).steps:
            given.clear()
            value = step.job.call(*step.job.arguments)
            if step.kind in ("reference", "run"):
                made.training[step.first_run] = [images for training, images in given if training]
                made.tested[step.first_run] = np.concatenate([images for training, images in given if not training])
            if step.first_run:
                (made.scored[step.first_run],) = value.results
        return made


def make_ties(work):
    """Give planted data's true importance eight values, so that each level cuts through many equal ones."""
    for split in Split:
        path = work.images.folder / f"{split}-truth.bin"
        truth = np.rint(np.fromfile(path, np.float32) * 8) / 8
        truth.tofile(path)
        for values in -np.sort(-truth.reshape(-1, 192)[:5]):  # so that the levels cut through ties
            assert all(values[round(t * 192) - 1] == values[round(t * 192)] for t in (0.1, 0.9, 0.3))


class Slow:
    """The slow pipeline on the decoded files and the stored weights of the explained network."""

    def __init__(self, work):
        folder = work.images.folder

        def read(what, kind, *shape):
            return {split: np.fromfile(folder / f"{split}-{what}.bin", kind).reshape(-1, *shape) for split in COUNTS}

        self.pixels, self.truth = read("pixels", np.uint8, *SHAPE), read("truth", np.float32, *SHAPE)
        self.labels = read("labels", np.int64)
        self.means, self.deviations = slow.moments(self.pixels["train"])
        # gradients of weights that differ in their last digits would rank differently
        (stored,) = work.workspace.references.glob("*/weights.pt")
        self.reference = torch.load(stored, weights_only=True)
        names = ("truth", "truth-inverted", "grad", "random")
        self.maps = {(name, split): self._importance(name, split) for name in names for split in COUNTS}
        self.network = lambda seed: work.build_untrained_network(seed)

    def normalised(self, images):
        return slow.normalised(images.astype(np.float32), self.means, self.deviations)

    def _importance(self, name, split):
        """Maps (n, c, h, w)."""
        if name.startswith("truth"):
            return self.truth[split] * (-1 if name == "truth-inverted" else 1)
        if name == "random":
            d, ids = int(np.prod(SHAPE)), range(FIRST_ID[split], FIRST_ID[split] + COUNTS[split])
            return np.array([slow.random_importance(image, d) for image in ids]).reshape(-1, *SHAPE)
        images = self.normalised(self.pixels[split])
        targets = slow.logits(self.reference, slow.channels_last(images)).argmax(1).numpy()
        return slow.gradient_maps(self.reference, images, targets)

    def removed(self, run, split):
        cell = run.cell
        if cell.estimator == "none":
            return np.zeros((COUNTS[split], *SHAPE), bool)
        maps = self.maps[cell.estimator, split]
        return slow.removed_features(maps, FIRST_ID[split], cell.t, str(cell.order), str(cell.unit))

    def inputs(self, run, split):
        removed, t = self.removed(run, split), run.cell.t
        if run.cell.retrain is ScoredNetwork.MASKS:
            return slow.normalised(removed.astype(np.float32), [t] * 3, [(t * (1 - t)) ** 0.5] * 3)
        return self.normalised(slow.degraded(self.pixels[split], removed, self.means))

    def trained(self, inputs, seed):
        """Weights of a network trained on these inputs; `tests/compute/test_train.py` checks `fit`."""
        model = self.network(seed)
        inputs = DegradedImages(torch.from_numpy(inputs), None, torch.zeros(3), Unit.SCALAR)
        fit(model, inputs, torch.from_numpy(self.labels["train"]), ONES, RECIPE, seed)
        return model.state_dict()


@pytest.fixture(scope="module")
def again(fast):
    return Slow(fast.work)


def test_training_inputs_equal_slow_pipeline_at_each_step(fast, again):
    assert len(fast.scored) == len(fast.training) - 1 == 16
    # in tests of their own; of a removed protocol
    others = {ScoredNetwork.COMMON, ScoredNetwork.SIBLINGS, ScoredNetwork.EXCHANGED}
    assert {run.cell.retrain for run in fast.scored} == set(ScoredNetwork) - others
    for run in fast.scored:
        if run.cell.retrain is ScoredNetwork.NONE:
            assert fast.training[run] == []
            continue
        inputs = again.inputs(run, "train")
        order = slow.batch_order(TRAIN, run.seed, RECIPE.epochs, RECIPE.batch)
        expected = [[inputs[i] for i in index] for index in order]
        np.testing.assert_array_equal(fast.training[run], expected, err_msg=str(run.cell))


def test_test_inputs_and_mask_smoothness_equal_slow_pipeline(fast, again):
    for run, scored in fast.scored.items():
        np.testing.assert_array_equal(fast.tested[run][:TEST], again.inputs(run, "test"), err_msg=str(run.cell))
        if run.cell.t:
            layers = slice(3 if run.cell.unit is Unit.SCALAR else 1)
            bits = again.removed(run, "test")[:, layers].reshape(TEST, -1)
            expected = compute_smoothness_vs_random(np.packbits(bits, axis=1), SHAPE, run.cell.unit)
            assert scored.smoothness == expected, run.cell


def test_explained_network_and_correctness_equal_slow_pipeline(fast, again):
    trained = again.trained(again.normalised(again.pixels["train"]), seed=1000)
    torch.testing.assert_close(again.reference, dict(trained), rtol=0, atol=0)
    for run, scored in fast.scored.items():
        weights = again.reference
        if run.cell.retrain is not ScoredNetwork.NONE:
            weights = again.trained(again.inputs(run, "train"), run.seed)
        answers = slow.correct_answers(weights, again.inputs(run, "test"), again.labels["test"])
        assert scored.correctness.tolist() == answers, run.cell
        assert (scored.probability is None) == (run.cell.retrain is not ScoredNetwork.NONE), run.cell
        if run.cell.retrain is ScoredNetwork.NONE:  # probability of the class predicted for the whole image
            targets = slow.logits(weights, torch.from_numpy(again.normalised(again.pixels["test"]))).argmax(1)
            chances = slow.logits(weights, torch.from_numpy(again.inputs(run, "test"))).softmax(1)
            expected = chances.gather(1, targets[:, None])[:, 0].numpy()
            np.testing.assert_allclose(scored.probabilities, expected, rtol=1e-4, err_msg=str(run.cell))
