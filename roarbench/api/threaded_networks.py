"""Work on batches of images in several threads, each with its own copies of the networks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from roarbench.api.network_checks_and_logits import compute_logits, split_into_batches
from roarbench.common.process_settings import release_freed_cpu_memory
from roarbench.compute.network_checks import are_logits_equal
from roarbench.compute.network_copies_for_threads import copy_sharing_weights, copy_with_folded_batchnorm

_ITEMS_AHEAD = 8  # items per thread before all threads wait for the slowest; limits the memory of prepared batches
_MOST = 4  # threads; each needs memory for the activations of a batch

Item = TypeVar("Item")
Result = TypeVar("Result")


class ThreadedNetworks(NamedTuple):
    """Python threads that share the work on batches, which is faster than more torch threads in each convolution.

    Networks on a GPU, and networks that cannot be copied, are used without copies in the calling thread.
    """

    copies: Sequence[Sequence[nn.Module]]  # the networks of each thread

    @classmethod
    def start(cls, networks: Sequence[nn.Module], pixels: Tensor) -> tuple["ThreadedNetworks", list[Tensor]]:
        """Copy networks for as many threads as torch uses, and compute their logits for all images.

        A copy has its batch norms folded if folding changes the logits only by rounding.
        """
        folded = [copied for original in networks if (copied := copy_with_folded_batchnorm(original, pixels[:2]))]
        if len(folded) < len(networks):
            alone = cls([networks])
            return alone, alone.compute_logits(pixels)
        logits = cls._copy([*networks, *folded]).compute_logits(pixels)
        pairs = zip(logits[: len(networks)], logits[len(networks) :], strict=True)
        equal = (are_logits_equal(own, fold) and torch.equal(own.argmax(1), fold.argmax(1)) for own, fold in pairs)
        best = [fold if same else network for network, fold, same in zip(networks, folded, equal, strict=True)]
        return cls._copy(best), logits[: len(networks)]

    @classmethod
    def _copy(cls, networks: Sequence[nn.Module]) -> "ThreadedNetworks":
        return cls([list(map(copy_sharing_weights, networks)) for _ in range(min(torch.get_num_threads(), _MOST))])

    def compute_logits(self, pixels: Tensor) -> list[Tensor]:
        """Compute each network's logits for all images, (n, classes)."""

        def work(networks: Sequence[nn.Module], part: slice) -> list[Tensor]:
            return [compute_logits(network, pixels[part]) for network in networks]

        parts = split_into_batches(pixels, self.copies[0])
        return [torch.cat(batches) for batches in zip(*self.map(work, parts), strict=True)]

    def map(
        self, work: Callable[[Sequence[nn.Module], Item], Result], items: Iterable[Item], take_alone: bool = True
    ) -> Iterator[Result]:
        """Yield the results of `work(networks, item)` in the order of the items.

        The calling thread takes the items from the iterator. With `take_alone`, no other thread works meanwhile, so the
        iterator may call functions that are not thread-safe. Callers set `use_exact_eager_mode` beforehand; the mode
        holds for all threads.
        """
        if len(self.copies) == 1:
            yield from (work(self.copies[0], item) for item in items)
            return
        whole, left = torch.get_num_threads(), iter(items)
        torch_threads = max(1, whole // len(self.copies))
        free = SimpleQueue[Sequence[nn.Module]]()
        for networks in self.copies:
            free.put(networks)

        def work_on_free_copies(item: Item) -> Result:
            networks = free.get()
            try:
                return work(networks, item)
            finally:
                free.put(networks)

        count = len(self.copies) * (1 if take_alone else _ITEMS_AHEAD)
        try:
            with ThreadPoolExecutor(len(self.copies), "networks", torch.set_num_threads, (torch_threads,)) as threads:
                while some := list(islice(left, count)):
                    release_freed_cpu_memory()
                    yield from list(threads.map(work_on_free_copies, some))
        finally:
            torch.set_num_threads(whole)  # new threads of other pools take the number set most recently
