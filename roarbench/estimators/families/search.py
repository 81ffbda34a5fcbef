"""A blind search for damaging masks: the control of own-network gain. It asks the network, and explains nothing.

An estimator that asks a network p times can find features whose removal changes the network's prediction, and yet know
nothing about the network. The search shows how large an own-network gain p forward passes earn (studies/search).
"""

from collections.abc import Sequence
from math import prod

from roarbench.common.enums import OWN_NETWORK_LEVELS
from roarbench.estimators.estimator import SEED, Estimator, Passes
from roarbench.estimators.lazy_torch import F, Tensor, device_settings, np, random_draws, torch
from roarbench.estimators.map_input import MapInput

_CELLS = 6  # cells along a side of the grids of random numbers; 4, 10 and 16 had smaller gains (studies/search)
_FIRST_STEP, _DECAY = 1.5, 1 / 3  # size of the j-th change of a mask: 1.5 / cube root of j


def search(inputs: MapInput) -> Tensor:
    """Search with `passes` forward passes an image at most; see `search_by_length`."""
    (importance,) = search_by_length(inputs, [inputs.estimator.get_integer("passes")])
    return importance


def search_by_length(inputs: MapInput, lengths: Sequence[int]) -> list[Tensor]:
    """Search each image for masks that change its prediction, by trial and error; return the map of each length.

    There are two masks, of the top 5 % and of the top 50 % of the features, and each has its own map. The maps are
    improved in turn, by one pass each: the map so far plus smooth noise, whose size falls with the cube root of the
    number of changes, replaces the map if removal of its top fraction lowers the class's probability. A mask that has
    changed the prediction is finished, and leaves its passes to the other one. In the end, a mask that has not changed
    the prediction is replaced by an untested change of it: the tested one has surely no effect.

    Args:
        inputs: Images, targets and network. All random numbers come from the image's number.
        lengths: Numbers of forward passes. A shorter search is the beginning of a longer one, so all take as many
            passes as the longest.

    Returns:
        Maps (n, c, h, w) of each length; the features of the smaller mask are the most important ones.
    """
    state = _Search(inputs)
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
    """The two masks of each image; the first dimension of the fields is the mask.

    Every map is a sum of smooth noise, which is linear in a grid of cells. So maps are kept and changed as grids, float
    (n, c, rows, columns), and are enlarged to the images only to remove features.
    """

    def __init__(self, inputs: MapInput) -> None:
        images = inputs.images
        count, channels, *sides = images.shape
        self.inputs, self.baseline = inputs, inputs.baseline
        self.counts = [round(level * prod(images.shape[1:])) for level in OWN_NETWORK_LEVELS]
        self.enlarge_rows, self.enlarge_columns = (_make_enlarging_matrix(side).to(images) for side in sides)
        self.best = images.new_zeros(2, count, channels, *(min(_CELLS, side) for side in sides))
        self.smaller_mask = torch.zeros_like(images, dtype=torch.bool)  # features that the smaller mask removes so far
        self.lowest = images.new_full((2, count), torch.inf)
        # a mask of no feature cannot change a prediction
        self.finished = torch.tensor(self.counts, device=images.device)[:, None].eq(0).repeat(1, count)
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
        mask_in_turn = torch.where(self.finished[number % 2], 1 - number % 2, number % 2)
        for mask in range(2):
            rows = ((mask_in_turn == mask) & ~self.finished[mask]).nonzero()[:, 0]
            if not len(rows):
                continue
            changed = self._change(mask, rows, number)
            images, targets = self.inputs.images[rows], self.inputs.batch.targets[rows]
            layout = device_settings.choose_fastest_float32_layout(images.device)
            importance = self._enlarge(changed)
            if mask == 1:  # the larger mask contains the smaller one
                importance = importance.masked_fill_(self.smaller_mask[rows], torch.inf)
            removed = _mark_top(importance, self.counts[mask])
            degraded = torch.where(removed, self.baseline[rows], images)
            logits = self.inputs.model(degraded.contiguous(memory_format=layout))
            probability = logits.log_softmax(1).gather(1, targets[:, None])[:, 0]
            finished = logits.argmax(1) != targets
            better = finished | (probability < self.lowest[mask, rows])
            self.best[mask, rows[better]] = changed[better]
            if mask == 0:
                self.smaller_mask[rows[better]] = removed[better]
            self.lowest[mask, rows[better]] = probability[better]
            self.finished[mask, rows] = finished

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
        rows = torch.arange(len(self.inputs.images), device=self.inputs.images.device)
        smaller, larger = (
            self._enlarge(
                torch.where(self.finished[mask][:, None, None, None], self.best[mask], self._change(mask, rows, number))
            )
            for mask in range(2)
        )
        first = _mark_top(smaller, self.counts[0])
        return torch.where(first, smaller + 1 + larger.amax((1, 2, 3), True) - smaller.amin((1, 2, 3), True), larger)


def _make_enlarging_matrix(side: int) -> Tensor:
    """Return the bilinear enlargement of at most 6 cells to a side as a matrix, float64 (side, cells)."""
    cells = torch.eye(min(_CELLS, side), dtype=torch.float64)[None]
    return F.interpolate(cells, side, mode="linear")[0].T.contiguous()


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
        about="masks that change the prediction, found by trial and error in forward passes", maps=search,
        parameters={"passes": 32, "baseline": "mean"},
        cost=lambda row, features: Passes(row.get_integer("passes"), 0), papers=(), neighbours=False),
)  # fmt: skip
