"""Split images into batches, and run networks on the batches in one or several threads."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, islice
from queue import SimpleQueue
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
_ITEMS_AHEAD = 8  # items per thread before all threads wait for the slowest; limits the memory of prepared batches
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
    if logits.isnan().any():
        seen = "a network returns logits that are NaN after features of an image are removed"
        raise CallerError(f"{seen}; pass smaller levels, or make the network's logits finite")
    return logits.argmax(1)


def refuse_nan_or_duplicate_logits(logits: Sequence[Tensor]) -> None:
    """Raise CallerError if logits, (n, classes) per network, are NaN, or if two networks have the same logits."""
    for number, own in enumerate(logits, 1):
        if (undefined := own.isnan().any(1)).any():
            seen = f"network {number} returns logits that are NaN for image {int(undefined.int().argmax())}"
            raise CallerError(f"{seen}; leave the image out, or make the network's logits finite")
    for (number, own), (other_number, other) in combinations(enumerate(logits, 1), 2):
        if torch.equal(own, other):
            seen = f"networks {number} and {other_number} return the same logits for all images"
            raise CallerError(f"{seen}; expected siblings with other weights")


class ThreadedNetworks(NamedTuple):
    """Copies of networks for Python threads; on whole batches these are faster than torch threads in each convolution.

    Networks on a GPU, and networks that cannot be copied, are used without copies in the calling thread.
    """

    copies: Sequence[Sequence[nn.Module]]  # the networks of each thread

    @classmethod
    def copy_and_compute_logits(
        cls, networks: Sequence[nn.Module], pixels: Tensor
    ) -> tuple["ThreadedNetworks", list[Tensor]]:
        """Copy networks for as many threads as torch uses, and compute their logits for all images."""
        copies = [copy for network in networks if (copy := copy_for_threads(network, pixels[:2]))]
        if len(copies) < len(networks):
            threaded = cls([networks])
        else:
            count = min(torch.get_num_threads(), _MOST_THREADS)
            others = [list(map(copy_frozen_sharing_weights, copies)) for _ in range(count - 1)]
            threaded = cls([copies, *others])
        return threaded, threaded.compute_logits(pixels)

    def compute_logits(self, pixels: Tensor) -> list[Tensor]:
        """Compute each network's logits for all images, (n, classes)."""

        def compute_batch(networks: Sequence[nn.Module], rows: slice) -> list[Tensor]:
            return [compute_logits(network, pixels[rows]) for network in networks]

        logits_by_batch = self.map(compute_batch, split_into_batches(pixels, self.copies[0]))
        return [torch.cat(logits) for logits in zip(*logits_by_batch, strict=True)]

    def map(
        self, work: Callable[[Sequence[nn.Module], Item], Result], items: Iterable[Item], pause_to_iterate: bool = True
    ) -> Iterator[Result]:
        """Yield the results of `work(networks, item)` in the order of the items.

        The calling thread takes the items from the iterator. With `pause_to_iterate`, no other thread works meanwhile,
        so the iterator may call functions that are not thread-safe. Callers enter `use_exact_eager_mode` beforehand;
        the mode holds for all threads.
        """
        if len(self.copies) == 1:
            yield from (work(self.copies[0], item) for item in items)
            return
        torch_threads, remaining = torch.get_num_threads(), iter(items)
        threads_per_copy = max(1, torch_threads // len(self.copies))
        free = SimpleQueue[Sequence[nn.Module]]()
        for networks in self.copies:
            free.put(networks)

        def work_on_free_copies(item: Item) -> Result:
            networks = free.get()
            try:
                return work(networks, item)
            finally:
                free.put(networks)

        count = len(self.copies) * (1 if pause_to_iterate else _ITEMS_AHEAD)
        try:
            with ThreadPoolExecutor(len(self.copies), "networks", torch.set_num_threads, (threads_per_copy,)) as pool:
                while group := list(islice(remaining, count)):
                    release_freed_cpu_memory()
                    yield from list(pool.map(work_on_free_copies, group))
        finally:
            torch.set_num_threads(torch_threads)  # new threads of other pools take the number set most recently
