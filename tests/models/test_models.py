"""Networks: seeded weights, torchvision as oracle, and bits that published rows hang on."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from roarbench.errors import CallerError
from roarbench.models import MODELS, vision
from roarbench.models.build import build
from tests.helpers.streamed import seeded

LARGE = pytest.param("resnet50", marks=pytest.mark.slow)
ALL = [LARGE if name == "resnet50" else name for name in sorted(MODELS)]
RESIDUAL = [name for name in ALL if name == LARGE or not MODELS[name].drawn]


def make(name: str, channels: int = 3, size: int = 32, seed: int = 0) -> nn.Module:
    return build(name, classes=7, channels=channels, size=size, generator=seeded(seed))


@pytest.mark.parametrize("name", RESIDUAL)
def test_weights_are_drawn_as_the_protocol_says(name: str) -> None:
    model = make(name)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            expected = math.sqrt(2 / (module.out_channels * module.kernel_size[0] ** 2))
            spread = expected / math.sqrt(2 * module.weight.numel())  # standard deviation of a standard deviation
            assert abs(module.weight.std().item() - expected) < 5 * spread
            assert module.bias is None
        elif isinstance(module, nn.Linear):
            assert abs(module.weight.std().item() - 0.01) < 5 * 0.01 / math.sqrt(2 * module.weight.numel())
            assert not module.bias.any()
        elif isinstance(module, nn.BatchNorm2d):
            assert (module.momentum, module.eps) == (0.1, 1e-5)
            assert not module.bias.any()


@pytest.mark.parametrize("name", ["resnet8", "vit-quick"])  # tests/frozen.json has all, from seed 0
def test_weights_come_from_the_generator_alone(name: str) -> None:
    before = torch.get_rng_state()
    first = make(name).state_dict()
    torch.testing.assert_close(torch.get_rng_state(), before, rtol=0, atol=0)
    torch.rand(1)  # moves the global generator on
    torch.testing.assert_close(make(name).state_dict(), first, rtol=0, atol=0)
    other = make(name, seed=1).state_dict()
    drawn = [key for key in first if first[key].ndim > 1 and key.endswith("weight")]
    assert all(not torch.equal(other[key], first[key]) for key in drawn)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("resnet18", 224), ("resnet50", 96)])
def test_large_networks_compute_what_torchvision_does(name: str, size: int) -> None:
    ours = build(name, 11, 3, size, seeded(0)).eval()
    nn.init.uniform_(ours.layer1[0].bn2.weight, generator=seeded(1))  # a block that does more than its shortcut
    theirs = getattr(vision.resnet, name)(num_classes=11).eval()
    theirs.load_state_dict(ours.state_dict())
    images = torch.randn(1, 3, size, size, generator=seeded(2))
    torch.testing.assert_close(ours(images), theirs(images), rtol=0, atol=0)


def test_a_transformer_has_patches_that_cover_the_image() -> None:
    for size in (28, 60):
        model = make("vit-quick", size=size)
        side = size // model.conv_proj.kernel_size[0]
        assert (model.encoder.pos_embedding.shape[1] - 1, side * model.conv_proj.kernel_size[0]) == (side**2, size)
    with pytest.raises(CallerError, match="vit-quick cannot cut 31 x 31 pixels into patches; write a size such as"):
        make("vit-quick", size=31)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("memory_format", [torch.channels_last, torch.contiguous_format])
def test_the_mean_over_positions_and_its_gradient_have_the_bits_of_a_plain_mean(
    precision: torch.dtype, memory_format: torch.memory_format
) -> None:
    """Maps and trained weights of published suites hang on every bit."""
    model = build("resnet-quick", 10, 3, 64, torch.Generator().manual_seed(0))
    images = torch.randn(8, 3, 64, 64, generator=torch.Generator().manual_seed(1)).contiguous(
        memory_format=memory_format
    )

    def results(forward: Callable[[Tensor], Tensor]) -> list[Tensor]:
        model.zero_grad()
        given = images.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision is torch.bfloat16):
            logits = forward(given)
        logits.float().square().sum().backward()
        return [logits.detach(), *(part.grad.clone() for part in (given, *model.parameters()) if part.grad is not None)]

    def plain(x: Tensor) -> Tensor:
        x = model.blocks(model.relu(model.norm(model.conv(x))))
        return model.linear(x.mean(dim=(2, 3)))

    torch.testing.assert_close(results(model), results(plain), rtol=0, atol=0)
