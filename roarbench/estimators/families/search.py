"""Blind searches for masks that change or keep predictions: the controls of own-network gain. They explain nothing.

An estimator that asks a network p times can find features whose removal changes the network's prediction, or keeps it,
and yet know nothing about the network. The search shows how large an own-network gain p forward passes earn
(studies/search), in MoRF or in LeRF order.
"""

from collections.abc import Sequence
from math import prod

from roarbench.common.enums import OWN_NETWORK_LEVELS, Order
from roarbench.estimators.estimator import SEED, Estimator, MapInput, Passes
from roarbench.estimators.lazy_torch import F, Tensor, device_settings, np, random_draws, torch

_CELLS = 6  # cells along a side of the grids of random numbers; 4, 10 and 16 had smaller gains (studies/search)
_NEXT_TO_ONE = 1e-20  # smaller than the logarithm of any probability below 1, in float64, too
_FIRST_STEP, _DECAY = 1.5, 1 / 3  # size of the j-th change of a mask: 1.5 / cube root of j


def search_by_length(inputs: MapInput, lengths: Sequence[int]) -> list[Tensor]:
    """Search each image for masks, by trial and error; return the map of each length.

    There are two masks, of 5 % and of 50 % of the features, and each has its own map. The maps are improved in turn, by
    one pass each: the map so far plus smooth noise, whose size falls with the cube root of the number of changes,
    replaces the map if the removal of its top fraction is better, as the two orders of removal define it.

    MoRF: masks of the most important features that change the prediction. A mask is better if it lowers the class's
    probability. A mask that has changed the prediction is finished, and leaves its passes to the other one. In the end,
    a mask that has not changed the prediction is replaced by an untested change of it: the tested one has surely no
    effect.

    LeRF: masks of the least important features that keep the prediction, though most masks change it, so that other
    networks change theirs. All passes go to the larger mask until it keeps the prediction. A mask is better if it
    raises the class's probability until the prediction is kept, and then if it lowers the probability and the
    prediction is still kept. Neither mask makes the other's test void: the smaller one is chosen within the larger one,
    which always contains the smaller one. In the end, a mask that has not kept the prediction is replaced by an
    untested change of it.

    Args:
        inputs: Images, targets and network. All random numbers come from the image's number.
        lengths: Numbers of forward passes. A shorter search is the beginning of a longer one, so all take as many
            passes as the longest.

    Returns:
        Maps (n, c, h, w) of each length; the features of the smaller mask are the most important ones, or the least
        important ones.
    """
    state = (_Search if inputs.estimator.get_value("order") == Order.MORF else _LerfSearch)(inputs)
    maps = {}
    for number in range(max(lengths) + 1):
        if not state.finished.all():
            state.draw_smooth_noise()
        if number in lengths:
            maps[number] = state.make_map(number)
        if number < max(lengths):
            state.try_changes(number)
    return [maps[length] for length in lengths]


class _Search:
    """The two masks of each image, in MoRF order; the first dimension of the fields is the mask.

    Every map is a sum of smooth noise, which is linear in a grid of cells. So maps are kept and changed as grids, float
    (n, c, rows, columns), and are enlarged to the images only to remove features.
    """

    def __init__(self, inputs: MapInput) -> None:
        images = inputs.images
        count, channels, *sides = images.shape
        self.inputs, self.baseline = inputs, inputs.baseline
        self.counts = [round(level * prod(images.shape[1:])) for level in OWN_NETWORK_LEVELS]
        # bilinear enlargement of at most 6 cells to a side as a matrix, (side, cells)
        cells = [torch.eye(min(_CELLS, side), dtype=torch.float64)[None] for side in sides]
        enlarged = (F.interpolate(one, side, mode="linear")[0] for one, side in zip(cells, sides, strict=True))
        self.enlarge_rows, self.enlarge_columns = (one.T.contiguous().to(images) for one in enlarged)
        self.best = images.new_zeros(2, count, channels, *(min(_CELLS, side) for side in sides))
        self.removed = images.new_zeros((2, *images.shape), dtype=torch.bool)  # features that the masks remove so far
        self.scores = images.new_full((2, count), -torch.inf)
        # a mask of no feature cannot change a prediction
        self.finished = torch.tensor(self.counts, device=images.device)[:, None].eq(0).repeat(1, count)
        self.found = self.finished.clone()  # masks that change the prediction; in LeRF order, those that keep it
        stream = random_draws.RngStream.SEARCH
        self.generators = [random_draws.make_rng(SEED, stream, image) for image in inputs.batch.ids.tolist()]
        self.noise = torch.zeros_like(self.best[0])  # of the pass, for images that are not finished

    def draw_smooth_noise(self) -> None:
        """Draw normal numbers on a grid of at most 6 x 6 cells per channel."""
        rows = (~self.finished.all(0)).nonzero()[:, 0]
        cells = np.empty((len(rows), *self.noise.shape[1:]), np.float32)
        for drawn, row in zip(cells, rows.tolist(), strict=True):
            self.generators[row].standard_normal(dtype=np.float32, out=drawn)
        self.noise[rows] = self._standardise(torch.from_numpy(cells).to(self.noise))

    def try_changes(self, number: int) -> None:
        """Test a change of one unfinished mask of each image, in pass `number`."""
        mask_in_turn = self._choose_masks(number)
        for mask in range(2):
            rows = ((mask_in_turn == mask) & ~self.finished[mask]).nonzero()[:, 0]
            if not len(rows):
                continue
            changed = self._change(mask, rows, number)
            images, targets = self.inputs.images[rows], self.inputs.batch.targets[rows]
            layout = device_settings.choose_fastest_float32_layout(images.device)
            removed = self._mark_removed(mask, self._enlarge(changed), self.removed[1 - mask, rows])
            degraded = torch.where(removed, self.baseline[rows], images)
            logits = self.inputs.model(degraded.contiguous(memory_format=layout))
            log_probability = _compute_log_probability(logits, targets).to(self.scores)
            scores, found = self._score(log_probability, logits.argmax(1) == targets)
            better = scores > self.scores[mask, rows]
            self._keep(mask, rows[better], changed[better], removed[better], scores[better], found[better])

    def _choose_masks(self, number: int) -> Tensor:
        """Return the mask of each image that is tested in pass `number`."""
        return torch.where(self.finished[number % 2], 1 - number % 2, number % 2)

    def _mark_removed(self, mask: int, importance: Tensor, other: Tensor) -> Tensor:
        """Return the features that a mask removes; the larger mask contains the smaller one, `other`."""
        return _mark_top(importance.masked_fill_(other, torch.inf) if mask == 1 else importance, self.counts[mask])

    def _score(self, log_probability: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
        """Return how good tested masks are, and whether they do what the search looks for."""
        return torch.where(kept, -log_probability, torch.inf), ~kept

    def _keep(self, mask: int, rows: Tensor, *tested: Tensor) -> None:
        """Keep a tested change of a mask, of these rows."""
        self.best[mask, rows], self.removed[mask, rows], self.scores[mask, rows], self.found[mask, rows] = tested
        self.finished[mask, rows] = self.found[mask, rows]

    def _change(self, mask: int, rows: Tensor, number: int) -> Tensor:
        """Return the grids of a mask, of these rows, after a change; the maps' standard deviation is 1."""
        size = _FIRST_STEP / max(1, number // 2) ** _DECAY
        changed = self.best[mask, rows] + size * self.noise[rows]
        return self._standardise(changed)

    def _standardise(self, grids: Tensor) -> Tensor:
        """Divide grids by the standard deviation of their enlarged maps, which are not computed."""
        down, across = self.enlarge_rows, self.enlarge_columns
        means = (down.mean(0) @ grids @ across.mean(0)).mean(1)
        centred = grids - means[:, None, None, None]  # as each row of the matrices sums to 1, the maps are centred, too
        products = (down.T @ down / len(down)) @ centred @ (across.T @ across / len(across))
        deviations = (products * centred).sum((2, 3)).mean(1).clamp_(min=0).sqrt_()
        return grids / deviations.clamp_(min=1e-6)[:, None, None, None]

    def _enlarge(self, grids: Tensor) -> Tensor:
        """Enlarge grids to maps (n, c, h, w) bilinearly."""
        return self.enlarge_rows @ grids @ self.enlarge_columns.T

    def make_map(self, number: int) -> Tensor:
        """Return the maps after `number` passes."""
        smaller, larger = self._enlarge_best(number)
        first = _mark_top(smaller, self.counts[0])
        return torch.where(first, smaller + 1 + larger.amax((1, 2, 3), True) - smaller.amin((1, 2, 3), True), larger)

    def _enlarge_best(self, number: int) -> list[Tensor]:
        """Return the maps of both masks after `number` passes; an untested change replaces a mask without success."""
        rows = torch.arange(len(self.inputs.images), device=self.inputs.images.device)
        return [
            self._enlarge(
                torch.where(self.found[mask][:, None, None, None], self.best[mask], self._change(mask, rows, number))
            )
            for mask in range(2)
        ]


class _LerfSearch(_Search):
    """The two masks of each image in LeRF order; `removed` has only masks that keep the prediction."""

    def _choose_masks(self, number: int) -> Tensor:
        only_larger = self.finished[0] | ~self.found[1]
        return torch.where(only_larger, 1, number % 2)

    def _mark_removed(self, mask: int, importance: Tensor, other: Tensor) -> Tensor:
        if mask == 0:  # the smaller mask is a part of the larger one
            importance = importance.masked_fill_(~other, -torch.inf)
        return super()._mark_removed(mask, importance, other)

    def _score(self, log_probability: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
        return torch.where(kept, -log_probability, log_probability), kept  # -log p is positive, log p negative

    def _keep(self, mask: int, rows: Tensor, *tested: Tensor) -> None:
        changed, removed, scores, found = tested
        self.best[mask, rows], self.scores[mask, rows], self.found[mask, rows] = changed, scores, found
        self.removed[mask, rows[found]] = removed[found]

    def make_map(self, number: int) -> Tensor:
        smaller, larger = self._enlarge_best(number)
        removed = self.removed.clone()
        for mask, importance in ((1, larger.clone()), (0, smaller)):  # the smaller mask is chosen within the larger one
            untested = self._mark_removed(mask, importance, removed[1 - mask])
            removed[mask] = torch.where(self.found[mask][:, None, None, None], removed[mask], untested)
        return torch.sigmoid(-larger).sub(removed.sum(0))


def _compute_log_probability(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the logarithm of each target's probability, (n,); probabilities that are rounded to 1 keep their order."""
    log_probability = logits.log_softmax(1).gather(1, targets[:, None])[:, 0]
    others = logits.scatter(1, targets[:, None], -torch.inf).logsumexp(1)
    margin = logits.gather(1, targets[:, None])[:, 0] - others  # the logarithm of p / (1 - p)
    return torch.where(log_probability == 0, -_NEXT_TO_ONE / margin, log_probability)


def _mark_top(importance: Tensor, count: int) -> Tensor:
    """Mark the `count` largest values of each map (n, c, h, w)."""
    if count == 0:
        return torch.zeros_like(importance, dtype=torch.bool)
    flat = importance.flatten(1)
    place = flat.shape[1] - count
    if flat.is_cuda:
        least = flat.kthvalue(place + 1, 1, keepdim=True).values
    else:  # several times as fast as torch's
        least = torch.from_numpy(np.partition(flat.numpy(), place, 1)[:, place, None])
    return (flat >= least).view_as(importance)


ESTIMATORS = (
    Estimator("search", title="Blind search",
        about="masks that change the prediction, or keep it, found by trial and error in forward passes",
        maps=lambda inputs: search_by_length(inputs, [inputs.estimator.get_integer("passes")])[0],
        parameters={"passes": 32, "order": "morf", "baseline": "mean"},
        cost=lambda row, features: Passes(row.get_integer("passes"), 0), papers=(), neighbours=False),
)  # fmt: skip
