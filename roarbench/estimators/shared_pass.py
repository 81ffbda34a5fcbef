"""Compute the maps of the 18 estimators of Hooker et al. 2019 in shared passes, for images and their noisy copies."""

from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.common.device_settings import choose_fastest_float32_layout
from roarbench.estimators.catalogue import BaseAndForm, list_plain_and_noisy_bases
from roarbench.estimators.estimator import PAPER_SETTINGS, SEED, SharedPassSettings
from roarbench.estimators.families.gradients import ReportLogits, compute_logit_gradients
from roarbench.estimators.map_input import Batch, make_baseline_images
from roarbench.estimators.network_copies import SplitStem
from roarbench.estimators.random_draws import compute_noise_scale, draw_normal_noise

_FORMS_WITHOUT_NOISE: dict[str, Callable[[Tensor], Tensor]] = {"base": lambda g: g, "squared": torch.square}


class MapRequest(NamedTuple):
    """Forms of maps to compute for one model, and the images to explain."""

    wanted: Set[BaseAndForm]
    model: nn.Module  # in eval mode; returns logits
    batch: Batch  # images with the classes to explain
    black: Tensor  # float (c, 1, 1), the black pixel, normalised
    settings: SharedPassSettings = PAPER_SETTINGS


class SharedPassMaps(NamedTuple):
    """Maps of one request."""

    maps: dict[BaseAndForm, Tensor]  # float (n, c, h, w)
    # number of each image's noisy copies that the model assigns to the target class, int64 (n,); 0 if there are no
    # noisy copies. Other points on the paths of integrated gradients do not count
    stable_copies: Tensor


def compute_shared_pass_maps(requests: Sequence[MapRequest]) -> list[SharedPassMaps]:
    """Compute the requested maps in the fewest passes: 400 forward and 416 backward for the paper's 18 estimators.

    All requests must have the same images and image numbers, so that the noise is drawn once. The maps of one request
    do not depend on the other requests.
    """
    running = [_RunningMaps(request) for request in requests]
    first = requests[0].batch
    samples = max(maps.samples for maps in running)
    # for each request, the first request with the same noisy copies; networks with the same normalisation share them
    sources = [next(other for other in running if maps.has_copies_of(other)) for maps in running]
    for j, noise in enumerate(prefetch(draw_normal_noise(first.images, first.ids, j, SEED) for j in range(samples))):
        copies: dict[int, Tensor] = {}
        for maps, source in zip(running, sources, strict=True):
            if j < maps.samples:
                if id(source) not in copies:
                    copies[id(source)] = source.make_noisy_copies(noise)
                maps.add_noisy_copies(copies[id(source)])
    return [maps.finish() for maps in running]


def prefetch(items: Iterator[Tensor]) -> Iterator[Tensor]:
    """Yield the items; a thread makes the next item while the caller uses one, so a GPU need not wait for noise."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


class _RunningMaps:
    """Maps of one request in progress: maps of the images themselves, and running moments over noisy copies."""

    def __init__(self, request: MapRequest) -> None:
        self._request = request
        images = request.batch.images
        self._images = images.contiguous(memory_format=choose_fastest_float32_layout(images.device))
        plain, self._noisy_bases = list_plain_and_noisy_bases(request.wanted)
        self.samples = request.settings.samples if self._noisy_bases else 0
        self._plain_maps = compute_base_maps(request, self._images, plain)
        self._scale = compute_noise_scale(self._images, request.settings.noise)
        self._moments = {base: RunningMoments(self._images) for base in self._noisy_bases}
        self._stable_copies = torch.zeros_like(request.batch.targets)

    def has_copies_of(self, other: "_RunningMaps") -> bool:
        """Return whether noisy copies of both are known to be equal; a GPU would wait for a comparison of values."""
        if self._request.settings.noise != other._request.settings.noise:
            return False
        same = self._request.batch.images is other._request.batch.images
        return same or (self._images.device.type == "cpu" and torch.equal(self._images, other._images))

    def make_noisy_copies(self, noise: Tensor) -> Tensor:
        """Make one noisy copy of every image; `noise` is standard normal."""
        return self._scale.mul(noise).add_(self._images)

    def add_noisy_copies(self, copies: Tensor) -> None:
        """Add the maps of one noisy copy of every image."""

        def count_stable(logits: Tensor) -> None:
            self._stable_copies.add_(logits.argmax(1) == self._request.batch.targets)

        for base, sample in compute_base_maps(self._request, copies, self._noisy_bases, count_stable).items():
            self._moments[base].add(sample)

    def finish(self) -> SharedPassMaps:
        """Return the maps after all noisy copies were added."""
        maps = {}
        for base, form in self._request.wanted:
            plain = _FORMS_WITHOUT_NOISE.get(form)
            maps[base, form] = plain(self._plain_maps[base]) if plain else self._moments[base].compute_form(form)
        return SharedPassMaps(maps, self._stable_copies)


class RunningMoments:
    """Running mean and sum of squared deviations (Welford 1962), in memory that does not grow with the samples."""

    def __init__(self, like: Tensor) -> None:
        self.count = 0
        self.mean = torch.zeros_like(like)
        self.deviations = torch.zeros_like(like)

    def add(self, sample: Tensor) -> None:
        """Add one sample."""
        self.count += 1
        step = sample - self.mean
        self.mean.add_(step, alpha=1 / self.count)
        self.deviations.addcmul_(step, step, value=1 - 1 / self.count)

    def compute_form(self, form: str) -> Tensor:
        """Compute a form over noisy copies, such as `variance` (docs/protocol.md, section 3)."""
        variance = self.deviations / self.count
        forms = {
            "smooth": self.mean,
            "smooth-squared": self.mean**2,
            "smoothed-square": variance + self.mean**2,
            "variance": variance,
        }
        return forms[form]


def compute_base_maps(
    request: MapRequest, images: Tensor, bases: Set[str], report_logits: ReportLogits = lambda logits: None
) -> dict[str, Tensor]:
    """Compute base maps of a request's images or of copies, float (n, c, h, w), signed, in as few passes as possible.

    Integrated gradients (Sundararajan et al. 2017) are (x - x0) times the mean of the gradients at the points
    x0 + i/25 (x - x0), i = 1..25, where x0 is the black image; the request's settings may have another number of points
    or another baseline. The last point is the image itself, so its gradient is also the map of the base `grad`. For
    integrated gradients, the stem of a `SplitStem` runs once for the images and once for the baselines. `report_logits`
    is called with the logits of the images themselves, (n, classes).
    """
    if not bases:
        return {}
    model, targets, settings = request.model, request.batch.targets, request.settings
    rules = {"gb" if base == "gb" else "grad" for base in bases}
    if "ig" not in bases:
        return compute_logit_gradients(model, images, targets, rules, report_logits)
    split = model if isinstance(model, SplitStem) else SplitStem(nn.Identity().eval(), model)
    with torch.enable_grad():
        inputs = images.detach().requires_grad_()
        outputs = split.stem(inputs)
    end, baseline = outputs.detach(), make_baseline_images(settings.baseline, images, request.black)
    with torch.no_grad():
        start = split.stem(baseline)
    gradients = compute_logit_gradients(split.rest, end, targets, rules, report_logits)
    total = gradients["grad"].clone()
    for i in range(1, settings.steps):
        point = torch.lerp(start, end, i / settings.steps)
        total += compute_logit_gradients(split.rest, point, targets, {"grad"})["grad"]

    def pass_back_through_stem(gradient: Tensor) -> Tensor:
        (image_gradient,) = torch.autograd.grad(outputs, inputs, grad_outputs=gradient, retain_graph=True)
        return image_gradient

    integrated = (images - baseline) * pass_back_through_stem(total) / settings.steps
    return {base: integrated if base == "ig" else pass_back_through_stem(gradients[base]) for base in bases}
