"""Importance maps of a range of images: by our engine, by a control, or by a submission in its sandbox."""

import signal
import time
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.devices import device, gpu_memory, precision_used
from roarbench.errors import MachineError, RunError
from roarbench.estimators import CUDA, SEED, TRUSTED, Estimator, find_estimator
from roarbench.estimators.base import Batch
from roarbench.estimators.controls import blurred
from roarbench.estimators.engine import EXPLAINED, Explained, fitting, importance_maps, job_group, passes
from roarbench.estimators.noise import other_targets
from roarbench.execution.context import RunContext
from roarbench.kernels.train import Normalisation, normalise
from roarbench.models.cost import network_cost
from roarbench.models.folding import folded
from roarbench.sandbox.explain import Network, Part, Task, at_once, cost, explain
from roarbench.sandbox.limits import suite_limits
from roarbench.store.map_provenance import ExplainedBatches, MapProvenance, merged
from roarbench.terms import Precision, Split

_TEST_IDS = 2**32  # test images are numbered from here on, so that an id means one image of the data set


class TimedMap(NamedTuple):
    """Importance maps, float32 (n, c, h, w) or (n, h, w), and how they were computed, from whichever weights."""

    importance: Tensor
    provenance: MapProvenance


def image_ids(split: Split, start: int, stop: int) -> Tensor:
    """Return the numbers of the images `start` … `stop - 1` of a split, unique over both; int64."""
    return torch.arange(start, stop) + (_TEST_IDS if split is Split.TEST else 0)


def shard_batch(context: RunContext, split: Split, start: int, stop: int, norm: Normalisation) -> Batch:
    """Return the images `start` … `stop - 1`, normalised, and the predictions to explain as targets."""
    images = context.images(split)
    targets = torch.zeros(stop - start, dtype=torch.int64)  # controls look at none
    if context.references.predicted(context.reference, split):
        targets = torch.from_numpy(context.references.predictions(context.reference, split).targets[start:stop])
    truth = None if images.truth is None else torch.from_numpy(images.truth[start:stop])
    pixels = context.pixels(split)[start:stop]
    labels = torch.from_numpy(images.labels[start:stop])
    return Batch(normalise(pixels, norm), targets, image_ids(split, start, stop), truth, labels)


def timed_maps(context: RunContext, names: Iterable[str], split: Split, start: int, stop: int) -> dict[str, TimedMap]:
    """Return the maps of a range of images by estimator id."""
    asked = [find_estimator(name) for name in names]
    made: dict[str, TimedMap] = {}
    for family, members in groupby(
        sorted(asked, key=lambda estimator: (job_group(estimator), estimator.id)), key=job_group
    ):
        norm = context.norm if family == "controls" else context.reference_norm
        batch, estimators = shard_batch(context, split, start, stop, norm), list(members)
        if estimators[0].variant == "other-target":
            classes = context.data.record.classes
            batch = batch._replace(targets=other_targets(batch.targets, batch.ids, classes, SEED))
        if estimators[0].submitted:
            found = _submitted_map(context, estimators[0], batch)
            made |= {estimator.id: _twin_of(found, estimator) for estimator in estimators}
        else:
            made |= _variant_maps(context, family, estimators, batch)
    return made


def _twin_of(made: TimedMap, estimator: Estimator) -> TimedMap:
    """Return the maps of a submission, or of its twin where that is the same ones blurred."""
    if estimator.twin != "blurred":
        return made
    n, h, w = made.importance.shape[0], *made.importance.shape[-2:]
    return made._replace(importance=blurred(made.importance.view(n, -1, h, w)).view_as(made.importance))


def _submitted_map(context: RunContext, estimator: Estimator, batch: Batch) -> TimedMap:
    """Return a submission's maps, made where it can touch nothing.

    Raises:
        RunError: The submission has a fault.
        MachineError: Somebody else killed it.
    """
    record = context.data.record
    network = Network(context.reference.model, record.classes, record.channels, record.size)
    source = context.workspace.submission(estimator.id)
    n, size = len(batch.ids), at_once(network)
    model = context.untrained_reference() if estimator.variant == "untrained" else context.trained_reference()
    part = Part(model, batch.images, batch.targets, batch.ids, size)
    task = Task(source, network, (part,), CUDA if CUDA in estimator.marks else "cpu")
    answer = explain(task, suite_limits(n, cost(network).flops), trust=TRUSTED in estimator.marks)
    if answer.fault is not None:
        killed = answer.death.stopped is None and answer.death.code == 128 + signal.SIGKILL  # not by us: no memory left
        raise (MachineError if killed else RunError)(f"{answer.fault.kind}: {answer.fault.words}")
    batches = ExplainedBatches(n, 1 if answer.drew else min(n, size), Precision.FLOAT32)
    return TimedMap(answer.maps[0], MapProvenance(answer.death.cpu, batches=[batches]))


def _variant_maps(context: RunContext, variant: str, estimators: list[Estimator], batch: Batch) -> dict[str, TimedMap]:
    """Return the maps of one group: estimators of the same model and targets, or controls."""
    start = time.process_time()
    model = None
    if variant != "controls":
        model = _explained(context, variant, context.references.checksum(context.reference))
    size, told = images_at_once(context, len(estimators)), list[Explained]()
    precision = precision_used(context.maps, device()) if model else Precision.FLOAT32
    batches = (batch.part(slice(first, first + size)) for first in range(0, len(batch.ids), size))
    found = (
        importance_maps(estimators, model, part.to(device()), context.black, precision, told.append) for part in batches
    )
    parts = [{name: each.cpu() for name, each in maps.items()} for maps in found]  # waits for a GPU
    explained = merged(ExplainedBatches(each.images, each.images, precision) for each in told)
    seconds = time.process_time() - start
    together = sum(passes(estimators)) or len(estimators)
    alone = {estimator.id: (sum(passes([estimator])) or 1) * seconds / together for estimator in estimators}
    kept = {name: torch.cat([each.kept[name] for each in told]).tolist() for name in told[0].kept}
    kept = kept if variant == "trained" else {}  # others do not explain what the model predicts for the image itself
    return {
        name: TimedMap(
            torch.cat([part[name] for part in parts]),
            MapProvenance(seconds_alone, batches=explained, kept=kept.get(name, ())),
        )
        for name, seconds_alone in alone.items()
    }


@lru_cache(maxsize=1)
def _explained(context: RunContext, variant: str, weights: str) -> nn.Module:
    """Return the network that a group explains, on the device; read once in a process for one checksum `weights`.

    Where its maps may be in bfloat16, its batch norms are folded: both round, and neither moves a place
    (docs/decisions/0019).
    """
    model = context.untrained_reference() if variant == "untrained" else context.trained_reference()
    return (folded(model) if context.maps is Precision.BF16 else model).to(device())


def images_at_once(context: RunContext, estimators: int) -> int:
    """Return how many images are explained together: `EXPLAINED` on a processor, on a GPU as many as fit."""
    if device().type == "cpu":
        return EXPLAINED
    record = context.data.record
    cost = network_cost(context.reference.model, record.classes, record.channels, record.size)
    shape = (record.channels, record.size, record.size)
    return max(EXPLAINED, fitting(gpu_memory(), cost.activations, shape, estimators))
