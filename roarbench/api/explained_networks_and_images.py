"""Hand a suite's explained networks and normalised images to the caller as torch's modules and tensors."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.common.enums import Split
from roarbench.common.errors import CallerError
from roarbench.compute.external_networks import add_source_to_pickles
from roarbench.compute.prediction import normalise
from roarbench.execution.job_context import JobContext, ReferenceModel


class LabelledImages(NamedTuple):
    """One split of a suite's images.

    Attributes:
        images: float32 (n, c, h, w), normalised as the networks take them.
        labels: int64 (n,), the true classes.
    """

    images: Tensor
    labels: Tensor


class Reference(NamedTuple):
    """A network that a suite explains.

    Attributes:
        model: The network in eval mode on the CPU; it takes normalised images and returns logits. It can be copied,
            pickled and saved whole by `torch.save(model, FILE)`.
        targets: int64 (n,), the network's predictions on the test images: the classes to explain.
        train_targets: The network's predictions on the training images; None if the suite explains no training images.
    """

    model: nn.Module
    targets: Tensor
    train_targets: Tensor | None


def normalise_images(work: JobContext, split: Split) -> LabelledImages:
    """Normalise the images of a split for the explained networks; CallerError if these normalise differently."""
    norms = {explained.norm for explained in work.explained}
    if len(norms) > 1:
        seen = "the given weights need differently normalised images"
        raise CallerError(f"{seen}; load the suite with one of them at a time")
    pixels, labels = torch.from_numpy(work.images[split].pixels), torch.from_numpy(work.images[split].labels)
    return LabelledImages(normalise(pixels, norms.pop()).contiguous(), labels)


def load_reference(explained: ReferenceModel) -> Reference:
    """Load an explained network with its stored predictions."""
    predictions = {split: explained.store.load_predictions(split) for split in explained.ranked_splits}
    targets = {split: torch.from_numpy(predicted.targets) for split, predicted in predictions.items()}
    return Reference(add_source_to_pickles(explained.load_trained()), targets[Split.TEST], targets.get(Split.TRAIN))
