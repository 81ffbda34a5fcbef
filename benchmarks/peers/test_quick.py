"""Compare the whole suite `quick` with a plain pipeline: time one unit of each kind of work, and multiply by its count.

The plain pipeline uses captum for one estimator and one explained network at a time, writes float32 maps to disk, and
trains and scores float32 networks with a DataLoader that sorts a map whenever its image is read. Units of work are an
image explained for one network, an image ranked, an image in one epoch of training, and a scored image; `roarbench
plan` counts them. Both sides leave out decoding, maps of controls, predictions on the images to explain, and starting
processes.
"""

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from peers import test_a_training as training
from peers.paired_timing import Figure, PairedTimer, measure_core_seconds
from peers.test_a_training import IMAGES, RECIPE
from peers.test_maps import BLACK, BY_CAPTUM, build_small_network, make_batch, make_captum_call
from torch import Tensor, nn
from torch.utils.data import DataLoader

from roarbench.compute.bit_planes import Layout, encode_planes
from roarbench.compute.prediction import choose_scoring_batch_size, predict_logits
from roarbench.compute.ranking import draw_tie_order, make_sort_keys
from roarbench.estimators.compute_maps import IMAGES_PER_PASS, compute_importance_maps
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.faster_networks import fold_batchnorm
from roarbench.execution.workload import Work, count_work
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.read_suite_file import read_suite

ROOT = Path(__file__).parents[2]
# all rows of this version are among the paper's 18
SUITE = read_suite(ROOT / "studies" / "replication" / "quick-2.toml")
AT_A_TIME = choose_scoring_batch_size(64)


class PipelinePart(NamedTuple):
    """A kind of work in a suite."""

    name: str
    number: float  # units of work in `quick`
    done: tuple[int, int]  # units of work per call of `ours` and of `plain`
    ours: Callable[[], object]
    plain: Callable[[], object]


class ScoredImages(training.RoarDataset):
    """Degraded images without augmentation."""

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return self.normalise(self.degrade(number)), self._labels[number]


def list_explaining_estimators() -> list[Estimator]:
    ranked = {point.cell.estimator_of_stored_ranking for point in list_planned_runs(SUITE)}
    return sorted((row for row in ranked if row and not row.control), key=lambda row: row.id)


def predict_by_plain_loop(folder: Path, labels: Tensor, model: nn.Module) -> Tensor:
    loader = DataLoader(ScoredImages(folder, labels), AT_A_TIME, num_workers=training.WORKERS)
    with torch.inference_mode():
        parts = [model(images.contiguous(memory_format=torch.channels_last)).argmax(1) for images, _ in loader]
    return torch.cat(parts)


def write_rankings(folder: Path, layout: Layout) -> None:
    maps = np.load(folder / "maps.npy").reshape(IMAGES, -1)
    keys = make_sort_keys(maps, draw_tie_order(np.arange(IMAGES), layout.features))
    np.save(folder / "again.npy", encode_planes(keys, layout))


def write_maps(folder: Path) -> None:
    """Write the maps unchanged; the plain pipeline sorts them when they are read."""
    np.save(folder / "again.npy", np.load(folder / "maps.npy"))


def list_pipeline_parts(folder: Path, labels: Tensor, layout: Layout, work: Work) -> list[PipelinePart]:
    """List the kinds of work in `quick`; networks are in evaluation mode and channels-last format."""
    rows, model = list_explaining_estimators(), build_small_network().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    data = SUITE.dataset_record
    images = (data.train_images + data.test_images) * SUITE.references
    short, batch = fold_batchnorm(model), make_batch(IMAGES_PER_PASS)
    epochs, once = int(RECIPE.epochs) * IMAGES, (IMAGES, IMAGES)
    return [
        PipelinePart(
            f"maps of {len(rows)} estimators",
            images,
            (IMAGES_PER_PASS, BY_CAPTUM),
            partial(compute_importance_maps, rows, short, batch, BLACK, SUITE.maps.precision),
            make_captum_call(rows, model),
        ),
        PipelinePart(
            "storing a ranking",
            work.images_ranked,
            once,
            partial(write_rankings, folder, layout),
            partial(write_maps, folder),
        ),
        *(
            PipelinePart(
                name,
                number,
                (epochs, epochs),
                partial(training.train_by_roarbench, folder, labels, layout, RECIPE, t),
                partial(training.train_by_plain_loop, folder, labels, RECIPE, t),
            )
            for name, number, t in (
                ("training on degraded images", work.images_retrained, training.T),
                ("training of references", work.images_reference, 0.0),
            )
        ),
        PipelinePart(
            "scoring",
            len(list_planned_runs(SUITE)) * data.test_images,
            once,
            lambda: predict_logits(
                model, training.read_degraded_images(folder, layout), training.NORM, AT_A_TIME
            ).argmax(1),
            partial(predict_by_plain_loop, folder, labels, model),
        ),
    ]


def test_all_of_quick(timer: PairedTimer, tmp_path: Path) -> None:
    """Measure each kind of work; `pytest -s` shows their table."""
    labels, layout = training.write_images_and_maps(tmp_path)
    work = count_work(SUITE, list_planned_runs(SUITE))
    assert (RECIPE.name, len(list_explaining_estimators())) == (SUITE.recipe_record.name, 5)
    totals = np.zeros(2)
    print("\n| part | number | ours, core-ms | plain, core-ms |\n|---|---|---|---|")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # captum warns at each guided backprop
        *parts, scoring = list_pipeline_parts(tmp_path, labels, layout, work)
        for part in parts:
            calls = zip((part.ours, part.plain), part.done, strict=True)
            # the faster of two calls
            seconds = np.array(
                [min(measure_core_seconds(call), measure_core_seconds(call)) / done for call, done in calls]
            )
            print(f"| {part.name} | {part.number:,.0f} | {1000 * seconds[0]:.3f} | {1000 * seconds[1]:.3f} |")
            totals += part.number * seconds
    our_predictions, plain_predictions = scoring.ours(), scoring.plain()
    assert isinstance(our_predictions, Tensor) and isinstance(plain_predictions, Tensor)
    assert (our_predictions == plain_predictions).float().mean() > 0.99, "only rounding differs"
    mine, theirs = timer.time_in_turns(scoring.ours, scoring.plain, rounds=1)
    print(f"| {scoring.name} | {scoring.number:,} | {1000 * mine / IMAGES:.3f} | {1000 * theirs / IMAGES:.3f} |")
    totals += scoring.number * np.array([mine, theirs]) / IMAGES
    detail = f"{totals[0] / 60:.0f} against {totals[1] / 60:.0f} core-minutes, computed from the kinds of work"
    timer.add_figure(Figure("all of `quick`", "plain pipeline with captum", totals[1] / totals[0], 10, detail))
