"""Find by a test which axes of a layer's output are the rows and columns of the image.

Bands of an image are changed, and the axes along which the change of the output moves with the band are the axes of the
rows and columns. During the test, convolutions and pools have no neighbours (`Local`): in a deep network each position
depends on the whole image, so changes would hardly move, but the layout of the output does not depend on the weights.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

_BANDS = 5  # horizontal bands of the image, and vertical bands, that are changed one after another
_BORDER = 1 / 16  # width of the first and the last band: the narrowest crop in a network that is found
PROBES = 1 + 2 * _BANDS  # images of the test; as a prime number, it is unlikely to be the size of another axis
# In small random networks the change moves by 0.77 or more along rows and columns if the band moves by 1, and by less
# than 0.00001 along channels. In 18 networks of torchvision with random batch norms, where operations on whole images
# remain, the numbers are 0.51 and 0.03.
_LEAST_SLOPE, _LEAST_CORRELATION = 0.2, 0.85
# the response of an axis of rows to vertical bands, as a share of its response to horizontal bands: at most .19 in
# these networks, and near 1 if an axis holds the positions of both directions
_MOST_OTHER = 0.6
# positions that follow the bands faster than this, or are shifted by more, show a part of the image only
_MOST_SLOPE, _MOST_SHIFT = 1.15, 0.12
_SHORTEST_SEQUENCE = 5  # of 2 x 2 positions and a class token
_CONVOLUTION_ARGUMENTS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_CONVOLUTIONS = {F.conv1d, F.conv2d}
_POOLS = {F.avg_pool1d, F.avg_pool2d, F.max_pool1d, F.max_pool2d, torch.max_pool1d, torch.max_pool2d}
_OF_SIGNALS = {F.conv1d, F.avg_pool1d, F.max_pool1d, torch.max_pool1d}
_RELUS, _RELUS_IN_PLACE = {F.relu, torch.relu, Tensor.relu}, {F.relu_, torch.relu_, Tensor.relu_}
_NORMS = {F.group_norm, torch.group_norm, F.instance_norm, torch.instance_norm}  # over positions
_MOMENTS = {
    *(torch.mean, Tensor.mean, torch.var, Tensor.var, torch.std, Tensor.std, torch.var_mean, torch.std_mean),
    *(torch.norm, Tensor.norm, torch.linalg.vector_norm),
}
_GATES = {torch.sigmoid, F.sigmoid, Tensor.sigmoid, F.hardsigmoid}
_SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax}


class GridLayout(NamedTuple):
    """The axes of a layer's output; all but the first count after the axis of the images has become axis 0."""

    images: int  # axis of the images
    split: tuple[int, int, int] | None  # an axis that contains all positions, and the two sizes into which it is split
    rows: int  # axis of the rows, after the split
    columns: int  # axis of the columns, after the split
    flipped: tuple[int, ...]  # axes, after the split, whose positions are in reverse order

    def arrange(self, output: Tensor) -> Tensor:
        """Return the output as (n, channels, rows, columns), in float32 or float64."""
        output = output.movedim(self.images, 0).to(torch.promote_types(output.dtype, torch.float32))
        if self.split:
            axis, *sizes = self.split
            output = output.reshape(*output.shape[:axis], *sizes, *output.shape[axis + 1 :])
        output = output.flip(self.flipped) if self.flipped else output
        channels = [axis for axis in range(1, output.ndim) if axis not in (self.rows, self.columns)]
        output = output.permute(0, *channels, self.rows, self.columns)
        return output if channels else output[:, None]


Bands = tuple[Tensor, Tensor]  # centres of the changed bands of rows and of columns, float64 (bands,), in [0, 1]


def make_probes(images: Tensor) -> tuple[Tensor, Bands]:
    """Make the images of the test, (11, c, h, w): the first image, and copies with another colour in one band each.

    A random colour, from its own generator and in units of the channels' standard deviations (1 if a channel is
    constant), is added to all pixels of the band.
    """
    h, w = images.shape[2:]
    scale = images.std((0, 2, 3), correction=0)[:, None, None]
    scale = torch.where(scale > 0, scale, 1)
    colour = torch.randn(images.shape[1], 1, 1, generator=torch.Generator().manual_seed(0)).to(images) * scale
    probes = images[:1].repeat(PROBES, 1, 1, 1)
    centres = torch.empty(2, _BANDS, dtype=torch.float64)
    for across, number in product((0, 1), range(_BANDS)):
        size = (h, w)[across]
        border = max(size * _BORDER, min(2, size / _BANDS))  # a stride may skip a border of one pixel
        edges = (0, *torch.linspace(border, size - border, _BANDS - 1).tolist(), size)
        start = int(edges[number])
        stop = max(math.ceil(edges[number + 1]), start + 1)
        band = (..., slice(start, stop)) if across else (..., slice(start, stop), slice(None))
        probes[1 + across * _BANDS + number][band] += colour
        centres[across, number] = (start + stop) / 2 / size
    return probes, (centres[0], centres[1])


def apply_without_neighbours(call: Any, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    """Call a function of torch, but let no position depend on its neighbours; the result has the usual shape.

    Convolutions and pools first average the input's positions over equal cells, one for each position of the output,
    and a kernel has one weight, with the kernel's norm and the sign of its sum. Each token attends to itself. Gates of
    channels are constant. Normalisations over positions divide by one number. ReLUs pass everything on, so that a few
    dead channels do not hide positions.
    """
    if call in _RELUS:
        return arguments[0].clone() if arguments else options["input"].clone()
    if call in _RELUS_IN_PLACE:
        return arguments[0]
    if call in _NORMS or (call is F.layer_norm and len(arguments) > 1 and len(arguments[1]) > 1):
        return arguments[0] / arguments[0].std().clamp(min=1e-6)
    if call in _CONVOLUTIONS or call in _POOLS:
        named = dict(zip(_CONVOLUTION_ARGUMENTS if call in _CONVOLUTIONS else ("input",), arguments, strict=False))
        return _apply_to_cells(call, arguments[len(named) :], named | options)
    if call is F.scaled_dot_product_attention and len(arguments) > 2 and arguments[0].shape == arguments[2].shape:
        return arguments[2].clone()
    if call is F.multi_head_attention_forward and arguments[0].shape[0] == arguments[1].shape[0]:
        itself = torch.eye(len(arguments[0]), device=arguments[0].device, dtype=torch.bool)
        options = options | {"attn_mask": ~itself, "is_causal": False}
    result = call(*arguments, **options)
    if call in _MOMENTS:  # of all positions, in a normalisation without a function of torch
        parts = result if isinstance(result, tuple) else (result,)
        if all(part.ndim == 4 and part.shape[2:].numel() == 1 for part in parts):
            parts = tuple(part.mean().expand_as(part) for part in parts)
            return parts if isinstance(result, tuple) else parts[0]
    if call in _GATES and result.ndim == 4 and result.shape[2:].numel() == 1:
        return torch.full_like(result, 0.5)
    if call in _SOFTMAX and result.ndim > 2 and result.shape[-1] == result.shape[-2]:
        return torch.eye(result.shape[-1]).to(result).expand(result.shape).clone()
    return result


def apply_with_shuffled_weights(call: Any, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    """Call a function of torch as `apply_without_neighbours` does, but with shuffled weights.

    The layout of a layer does not depend on its weights. But a network that joins the logits of several classifiers may
    have learned that its classes lie at places of the image, so that an axis of classes follows the image.
    """
    if call == Tensor.requires_grad.__get__:  # type: ignore[attr-defined]
        return call(*arguments)  # of the weight itself: other answers change the order of a network's calls
    weights = {number for number, part in enumerate(arguments) if isinstance(part, nn.Parameter)}
    weights |= {1} if call is F.linear else set()  # a weight may be computed, for example by `torch.func`
    shuffled = []
    for number, weight in enumerate(arguments):
        # quantised and sparse weights have few functions
        is_plain = type(weight) in (Tensor, nn.Parameter) and weight.layout is torch.strided
        if number in weights and is_plain and weight.ndim > 1:
            generator = np.random.default_rng(0)  # `torch.vmap` refuses torch's random operations
            for axis, size in enumerate(weight.shape):
                order = torch.from_numpy(generator.permutation(size)).to(weight.device)
                weight = weight.detach().index_select(axis, order)
        shuffled.append(weight)
    return apply_without_neighbours(call, shuffled, options)


def _apply_to_cells(call: Any, more: Sequence[Any], named: dict[str, Any]) -> Any:
    """Apply a convolution or pool whose kernel is a cell of the input; `more` are arguments without a name."""
    x, others = named["input"], {name: value for name, value in named.items() if name != "input"}
    axes, make_cells = (3, F.adaptive_avg_pool1d) if call in _OF_SIGNALS else (4, F.adaptive_avg_pool2d)
    if x.ndim != axes:  # a single image
        return call(x, *more, **others)
    first = call(x[:1], *more, **others)
    if not isinstance(first, Tensor):  # a pool that returns the positions of its maxima, too
        return call(x, *more, **others)
    cells: Tensor = make_cells(x, first.shape[2:])  # type: ignore[arg-type]
    if call in _POOLS:
        return cells
    weight = named["weight"]
    taps = tuple(range(2, weight.ndim))
    sign = torch.where(weight.sum(taps, keepdim=True) < 0, -1.0, 1.0).to(weight)
    weight = sign * torch.linalg.vector_norm(weight, dim=taps, keepdim=True)
    return call(cells, weight, named.get("bias"), groups=named.get("groups", 1))


class OutputTest(NamedTuple):
    """The result of the test for one tensor."""

    shape: tuple[int, ...]  # of the tensor, without the axis of the images if there is such an axis
    layout: GridLayout | None = None
    # whether positions can be told apart although they form no grid, as in a sequence of patches and a class token
    has_positions: bool = False
    is_whole: bool = True  # whether the grid covers the image; False, for example, after a crop in the network
    views: int = 1  # entries per image on axis 0, if there are several, as if views of an image formed one batch
    clearness: float = 0.0  # with which the axes of the layout follow the bands; 0 if they do not


def find_layout(outputs: Tensor, bands: Bands, size: Sequence[int]) -> OutputTest:
    """Find the layout of a tensor that a network computed from the images of `make_probes`.

    Args:
        outputs: Float, of any shape.
        bands: Second result of `make_probes`.
        size: Height and width of the images.
    """
    if outputs.ndim < 3 or PROBES not in outputs.shape:
        views, rest = divmod(len(outputs) if outputs.ndim > 1 else 0, PROBES)
        return OutputTest(tuple(outputs.shape), views=views if views > 1 and not rest else 1)
    images = outputs.shape.index(PROBES)
    ordered = outputs.detach().movedim(images, 0)
    shape = tuple(ordered.shape[1:])
    changes = (ordered[1:] - ordered[:1]).abs()
    if outputs.ndim > 4 or not outputs.is_floating_point() or not changes.isfinite().all():
        return OutputTest(shape)
    profiles = {}  # sums over all axes but one and the first, that of the changed band
    for axis in range(1, changes.ndim):
        others = [other for other in range(1, changes.ndim) if other != axis]
        profiles[axis] = changes.sum(others, dtype=torch.float64).cpu()
    layouts = _list_layouts(profiles, size, images)
    judged = (_judge_axes(shape, layout, along, bands) for layout, along in layouts)
    clearest = max(judged, key=lambda test: test.clearness, default=OutputTest(shape))
    if clearest.clearness > 0:
        return clearest
    # beside a sequence of positions there are channels; short axes may follow a direction by chance
    sequences = [profile for profile in profiles.values() if profile.shape[1] >= _SHORTEST_SEQUENCE]
    measured = [_measure(profile, bands, across) for profile in sequences for across in (False, True)]
    several_axes = sum(length > 1 for length in shape) > 1
    return OutputTest(shape, has_positions=several_axes and any(movement.is_clear for movement in measured))


def _list_layouts(
    profiles: dict[int, Tensor], size: Sequence[int], images: int
) -> Iterator[tuple[GridLayout, dict[int, Tensor]]]:
    """Yield possible layouts of a tensor, and the profiles along the axes of each."""
    for rows, columns in permutations(profiles, 2):
        single = {axis for axis in (rows, columns) if profiles[axis].shape[1] == 1}
        # channels may follow a direction by chance, so one direction alone counts only in the usual order of axes
        if single and min(size) > 1 and {rows, columns} != {2, 3}:
            continue
        yield GridLayout(images, None, rows, columns, ()), profiles
    if len(profiles) != 2:
        return
    for axis, profile in profiles.items():
        length = profile.shape[1]
        for first in (number for number in range(1, length + 1) if length % number == 0):
            split = axis, first, length // first
            parts = profile.reshape(-1, *split[1:])
            along = {axis: parts.sum(2), axis + 1: parts.sum(1)}
            for rows, columns in permutations(along, 2):
                # an axis with a single position follows nothing, so it needs an image with a single row or column
                if all(along[own].shape[1] > 1 or side == 1 for own, side in zip((rows, columns), size, strict=True)):
                    yield GridLayout(images, split, rows, columns, ()), along


def _judge_axes(shape: tuple[int, ...], layout: GridLayout, profiles: dict[int, Tensor], bands: Bands) -> OutputTest:
    clearness, flipped, is_whole = 0.0, [], True
    for across, axis in enumerate((layout.rows, layout.columns)):
        if profiles[axis].shape[1] == 1:
            continue
        own, other = _measure(profiles[axis], bands, bool(across)), _measure(profiles[axis], bands, not across)
        if not own.is_clear or other.strength > _MOST_OTHER * own.strength:
            return OutputTest(shape)
        clearness += abs(own.slope)
        is_whole &= own.reaches_border and abs(own.slope) <= _MOST_SLOPE and own.shift <= _MOST_SHIFT
        flipped += [axis] if own.slope < 0 else []
    layout = layout._replace(flipped=tuple(flipped))
    return OutputTest(shape, layout, has_positions=True, is_whole=is_whole, clearness=clearness)


class _Movement(NamedTuple):
    """Movement of a tensor's change along an axis with the changed bands."""

    slope: float  # by which the centre of the change moves if the band moves by 1; negative if the axis is reversed
    correlation: float  # of the two centres, -1 to 1
    strength: float  # standard deviation, over the bands, of the change relative to its mean at the same index
    shift: float  # mean distance of the centre of the change from the centre of the band, in sizes of the image
    reaches_border: bool  # whether the first and the last band change anything

    @property
    def is_clear(self) -> bool:
        return abs(self.slope) >= _LEAST_SLOPE and abs(self.correlation) >= _LEAST_CORRELATION


def _measure(profile: Tensor, bands: Bands, across: bool) -> _Movement:
    """Measure how an axis follows the bands of the rows or, if `across`, of the columns.

    `profile` (2 * bands, size) holds the changes along the axis: first for the bands of rows, then of columns.
    """
    share = profile / profile.sum(1, keepdim=True)
    relative = (share / share.nanmean(0)).nan_to_num(0.0)
    own = relative[_BANDS:] if across else relative[:_BANDS]
    positions = (torch.arange(own.shape[1], dtype=own.dtype) + 0.5) / own.shape[1]
    changed = own.sum(1) > 0
    centres = (own * positions).sum(1)[changed] / own.sum(1)[changed]
    expected = bands[across][changed]
    if changed.sum() < 2:
        return _Movement(0.0, 0.0, 0.0, 0.0, False)
    reached = bool(changed[0]) and bool(changed[-1])
    shift = min(abs(float(centres.mean() - place.mean())) for place in (expected, 1 - expected))
    centres, expected = centres - centres.mean(), expected - expected.mean()
    covariance, variance = float(centres @ expected), float(expected @ expected)
    if covariance == 0 or variance == 0:
        return _Movement(0.0, 0.0, float(own.std(0).mean()), shift, reached)
    correlation = covariance / float(centres.norm() * expected.norm())
    return _Movement(covariance / variance, correlation, float(own.std(0).mean()), shift, reached)
