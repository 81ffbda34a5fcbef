"""Draw truncated normal weights by one algorithm, whatever the version of torch."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import init

_DIRECT = 0.3  # share of the normal distribution within the bounds, above which normal draws are rejected


def fill_truncated_normal(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: torch.Generator | None = None
) -> Tensor:
    """Fill a tensor in place with draws from N(mean, std^2) within [a, b], by rejection as torch 2.13 does.

    Normal draws outside the bounds are drawn again; if the bounds hold less than 0.3 of the distribution, uniform
    draws are accepted in proportion to their density. The draws are bit-equal to torch 2.13's and 2.15's.
    """
    if tensor.is_meta:
        return tensor
    share = (math.erf((b - mean) / std / math.sqrt(2)) - math.erf((a - mean) / std / math.sqrt(2))) / 2
    low, high = (tensor.new_tensor(bound, device="cpu").item() for bound in (a, b))
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def draw() -> tuple[Tensor, Tensor]:
        drawn = torch.empty_like(tensor)
        if share > _DIRECT:
            drawn.normal_(mean, std, generator=generator)
            return drawn, (drawn < low) | (drawn > high)
        drawn.uniform_(a, b, generator=generator)
        density = drawn.clone().sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        return drawn, torch.empty_like(tensor).uniform_(generator=generator).log_() > density

    with torch.no_grad():
        result, rejected = draw()
        while rejected.any():
            drawn, again = draw()
            result, rejected = drawn.where(rejected, result), again & rejected
        return tensor.copy_(result)


@contextmanager
def use_own_truncated_normal() -> Iterator[None]:
    """Let all truncated normal weights of the `with` block come from `fill_truncated_normal`.

    torch up to 2.11 inverts the distribution function instead, so the same seed gives other weights, and run keys do
    not contain torch's version. The function is replaced under the name that `torch.nn.init.trunc_normal_` calls,
    because networks may hold `trunc_normal_` itself; one thread at a time may enter.
    """
    original = init._no_grad_trunc_normal_
    init._no_grad_trunc_normal_ = fill_truncated_normal
    try:
        yield
    finally:
        init._no_grad_trunc_normal_ = original
