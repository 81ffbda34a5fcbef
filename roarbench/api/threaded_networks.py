"""Split images into batches, and run networks on the batches in one or several threads."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from roarbench.api.inputs import move_to_model
from roarbench.common.device_settings import choose_fastest_float32_layout
from roarbench.common.errors import CallerError
from roarbench.common.process_settings import release_freed_cpu_memory
from roarbench.compute.external_networks import extract_logits
from roarbench.compute.prediction import choose_scoring_batch_size
from roarbench.estimators.compute_maps import IMAGES_PER_PASS
from roarbench.estimators.network_copies import copy_for_threads, copy_frozen_sharing_weights

_EXPLAINED_PIXELS = 2**17  # pixels per batch of images to explain; larger batches are not faster on a CPU
_SCORED_PIXELS = 4 * 224**2  # pixels per forward pass, for the same reason
_MOST_THREADS = 4  # each thread needs memory for the activations of a batch

Item = TypeVar("Item")
Result = TypeVar("Result")


def split_into_batches(pixels: Tensor, networks: Sequence[nn.Module] = ()) -> list[slice]:
    """Divide images into batches to explain; if all networks are on a GPU, batches are as large as in a suite."""
    size = max(1, _EXPLAINED_PIXELS // pixels[0, 0].numel())
    if networks and all(map(_is_on_gpu, networks)):
        size = max(size, min(IMAGES_PER_PASS, IMAGES_PER_PASS * 224**2 // pixels[0, 0].numel()))
    return [slice(start, min(start + size, len(pixels))) for start in range(0, len(pixels), size)]


def _is_on_gpu(network: nn.Module) -> bool:
    return any(weights.is_cuda for weights in network.parameters())


def _split_for_scoring(images: Tensor, network: nn.Module) -> list[slice]:
    """Divide images evenly into batches for one forward pass each; on a GPU, batches are as large as in a suite."""
    count = len(images)
    if _is_on_gpu(network):
        size = choose_scoring_batch_size(images.shape[3])
        return [slice(start, start + size) for start in range(0, count, size)]
    batches = min(max(1, count * images[0, 0].numel() // _SCORED_PIXELS), count)
    return [slice(count * batch // batches, count * (batch + 1) // batches) for batch in range(batches)]


def compute_logits(model: nn.Module, images: Tensor) -> Tensor:
    """Compute logits, float32 (n, classes) on the CPU, in batches; the network stays in its mode (train or eval)."""
    with torch.inference_mode():
        batches = (move_to_model(model, images[rows]) for rows in _split_for_scoring(images, model))
        fast = (batch.contiguous(memory_format=choose_fastest_float32_layout(batch.device)) for batch in batches)
        return torch.cat([extract_logits(model(batch)).cpu().float() for batch in fast])


def predict_degraded_images(model: nn.Module, images: Tensor) -> Tensor:
    """Predict the classes of images without some features, int64 (n,) on the CPU; CallerError if logits are NaN."""
    logits = compute_logits(model, images)
    refuse_nan_logits(logits)
    return logits.argmax(1)


def refuse_nan_logits(logits: Tensor) -> None:
    """Raise CallerError for logits of degraded images that are NaN."""
    if logits.isnan().any():
        seen = "a network returns logits that are NaN after features of an image are removed"
        raise CallerError(f"{seen}; pass smaller levels, or make the network's logits finite")


class ThreadedNetworks(NamedTuple):
    """Copies of networks for Python threads; on whole batches these are faster than torch threads in each convolution.

    Networks on a GPU, and networks that cannot be copied, are used without copies in the calling thread.
    """

    copies: Sequence[Sequence[nn.Module]]  # the networks of each thread

    @classmethod
    def copy_for_each_thread(cls, networks: Sequence[nn.Module], pixels: Tensor) -> "ThreadedNetworks":
        """Copy networks for as many threads as torch uses."""
        threads = min(torch.get_num_threads(), _MOST_THREADS)
        copies = [copy for network in networks if (copy := copy_for_threads(network, pixels[:2]))]
        if threads == 1 or len(copies) < len(networks):
            return cls([networks])
        return cls([copies, *(list(map(copy_frozen_sharing_weights, copies)) for _ in range(threads - 1))])

    def compute_logits(self, pixels: Tensor) -> list[Tensor]:
        """Compute each network's logits for all images, (n, classes)."""

        def compute_batch(networks: Sequence[nn.Module], rows: slice) -> list[Tensor]:
            return [compute_logits(network, pixels[rows]) for network in networks]

        logits_by_batch = self.map(compute_batch, split_into_batches(pixels, self.copies[0]))
        return [torch.cat(logits) for logits in zip(*logits_by_batch, strict=True)]

    def map(self, work: Callable[[Sequence[nn.Module], Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results of `work(networks, item)` in the order of the items.

        While the calling thread takes items from the iterator, no other thread works, so the iterator may call
        functions that are not thread-safe. Callers enter `use_exact_eager_mode` beforehand; it holds for all threads.
        """
        count = len(self.copies)
        if count == 1:
            yield from (work(self.copies[0], item) for item in items)
            return
        torch_threads, remaining = torch.get_num_threads(), iter(items)
        try:
            with ThreadPoolExecutor(count, "networks", torch.set_num_threads, (torch_threads // count,)) as pool:
                while group := list(islice(remaining, count)):
                    release_freed_cpu_memory()
                    yield from list(pool.map(work, self.copies, group))
        finally:
            torch.set_num_threads(torch_threads)  # new threads of other pools take the number set most recently
