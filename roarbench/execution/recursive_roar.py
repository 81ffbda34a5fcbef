"""Recursive ROAR: at each level a network is trained, explained on the images that it was trained on, and more removed.

Madsen et al. 2022 (arXiv 2110.08412), section 3.2. What is redundant no longer hides: a feature that tells the same as
one that is gone becomes important to the network that was trained without that one.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from roarbench.datasets.decoded import ImageData
from roarbench.devices import device
from roarbench.enums import PAPER_LEVELS, Split, Unit
from roarbench.errors import RunError
from roarbench.estimators.engine import EXPLAINED, importance_maps
from roarbench.estimators.inputs import Batch
from roarbench.execution.class_templates import class_images
from roarbench.execution.device_inputs import remove_features
from roarbench.execution.importance import image_ids
from roarbench.execution.suite_work import SuiteWork
from roarbench.identity import fingerprint, record
from roarbench.kernels.bit_planes import Layout, encode, find_removed_bits
from roarbench.kernels.inputs import Normalisation, normalise
from roarbench.kernels.ranking import features, sort_keys, tie_order
from roarbench.kernels.scoring import count_scored_at_once, predict
from roarbench.kernels.train import fit
from roarbench.plan.runs import Run
from roarbench.store.rankings import Rankings

Bits = NDArray[np.uint8]
_NETWORK, _BITS = "network.", "removed-"  # what the names of a stage's tensors begin with


class Stage(NamedTuple):
    """A level of the recursion."""

    removed: Mapping[Split, Bits]  # packed removed bits of all images of each split, uint8 (n, width)
    model: nn.Module  # the network that was trained without these features, on the device


def recursive_stage(work: SuiteWork, run: Run, rankings: Rankings | None) -> Stage:
    """Return the stage of a run's level, made of those of the paper's levels below it.

    The lowest removes what the row's rankings by the reference say. Stages are kept, so that each is made once.
    RunError where the row cannot be explained anew.
    """
    row = run.cell.estimator_record
    plain = row is not None and not row.submitted and row.twin in ("", "blurred")
    if not plain or rankings is None or run.cell.unit is Unit.SUPERPIXEL:
        raise RunError(f"roar-recursive cannot explain {run.cell.estimator} by {run.cell.unit} anew; leave it out")
    return _stage(work, run, rankings, (*(lower for lower in PAPER_LEVELS if lower < run.cell.t), run.cell.t))


def _stage(work: SuiteWork, run: Run, rankings: Rankings, levels: tuple[float, ...]) -> Stage:
    cell = {key: value for key, value in record(run.cell).items() if key != "t"}  # shared by stages of all levels
    fixed = {"recursion": levels, "cell": cell, "seed": run.seed, "recipe": run.recipe, "data": run.data}
    store = work.stored(fingerprint({**fixed, "rankings": rankings.checksum}))
    with store.lock():  # locks are taken from high levels to low ones, so no two processes wait for each other
        if not store.has():
            store.save(_make_stage(work, run, rankings, levels), fixed)
    kept = store.weights()
    model = work.network(run.seed)
    model.load_state_dict({name.removeprefix(_NETWORK): kept[name] for name in kept if name.startswith(_NETWORK)})
    return Stage({split: kept[_BITS + split].numpy() for split in Split}, model.to(device()).eval())


def _make_stage(work: SuiteWork, run: Run, rankings: Rankings, levels: tuple[float, ...]) -> nn.Module:
    """Return a stage as one module: the network as its part, removed bits as buffers."""
    *lower, t = levels
    if lower:
        before = _stage(work, run, rankings, tuple(lower))
        removed = {split: _remove_more(work.images, run, before, t, split) for split in Split}
    else:
        removed = {
            split: find_removed_bits(rankings.planes(split), t, run.cell.order, rankings.layout) for split in Split
        }
    model = work.start(run.recipe_record, run.seed).to(device())
    images, labels = remove_features(work.images, Split.TRAIN, removed[Split.TRAIN], run.cell), work.images.train.labels
    fit(model, images, torch.from_numpy(labels), Normalisation.of(work.images), run.recipe_record, run.seed)
    made = nn.Module()
    made.add_module(_NETWORK.rstrip("."), model)
    for split, bits in removed.items():
        made.register_buffer(_BITS + split, torch.from_numpy(bits))
    return made


def _remove_more(data: ImageData, run: Run, before: Stage, t: float, split: Split) -> Bits:
    """Return what is removed at a level: all that was, and what matters most to the network trained without it.

    It explains the class that it predicts for the degraded image. Maps are in float32.
    """
    shape, norm, estimator = data.record.shape, Normalisation.of(data), run.cell.estimator_record
    assert estimator is not None, "refused above"
    layout = Layout(shape, run.cell.unit, (t,))
    images = remove_features(data, split, before.removed[split], run.cell)
    targets = predict(before.model, images, norm, count_scored_at_once(data.record.size)).argmax(1)
    some, found = data[split], []
    told = class_images(data).to(device()) if estimator.uses_prediction else None
    for start in range(0, len(images), EXPLAINED):
        rows = slice(start, min(start + EXPLAINED, len(images)))
        gone = np.unpackbits(before.removed[split][rows], axis=1, count=layout.features).view(bool)
        ids = image_ids(split, rows.start, rows.stop)
        inputs = normalise(images.batch(torch.arange(rows.start, rows.stop)), norm)
        truth = None if some.truth is None else torch.from_numpy(some.truth[rows]).to(device())
        batch = Batch(inputs, targets[rows].to(device()), ids, truth, torch.from_numpy(some.labels[rows]), told)
        maps = importance_maps([estimator], before.model, batch, norm.black)[estimator.id]
        flat = features(maps.cpu().numpy(), shape, layout.unit)
        ties = tie_order(ids.numpy(), layout.features)
        keys = sort_keys(np.where(gone, np.float32(np.inf), flat), ties)  # what is gone stays gone
        found.append(find_removed_bits(encode(keys, layout), t, run.cell.order, layout))
    return np.concatenate(found)
