"""torchvision's classification networks; ResNets, a ViT and a ConvNeXt for suites, built from torchvision's classes.

torchvision's residual blocks use one in-place ReLU several times and add the shortcut in place; the blocks here do
neither. Layers and weights have the same names as in torchvision, so torchvision's checkpoints can be loaded.
"""

import importlib
from typing import Any

from torch import Tensor, nn

from roarbench.common.errors import CallerError, UnknownName
from roarbench.compute.external_networks import call_despite_missing_operators, import_torchvision_models

_DIM, _DEPTH, _HEADS = 64, 4, 4  # width, layers and heads of the transformer
_SIDE = 8  # maximum patches per side of the transformer


# importing `resnet` alone is faster than importing all of `torchvision.models`
resnet = call_despite_missing_operators(lambda: importlib.import_module("torchvision.models.resnet"))


def find_torchvision_weights(network: str, weights: str) -> Any:
    """Return a network's weights by their name in torchvision; raise UnknownName if there are none."""
    models = import_torchvision_models()
    try:
        known = models.get_model_weights(network)
    except ValueError:
        raise UnknownName("network of torchvision", network, models.list_models(module=models)) from None
    if weights not in known.__members__:
        raise UnknownName(f"weights of torchvision:{network}", weights, known.__members__)
    return known[weights]


class BasicBlock(resnet.BasicBlock):  # type: ignore[misc, name-defined]
    """torchvision's basic block with a separate ReLU module for each use."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        del self.relu
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map float (n, c, h, w) to (n, planes, h / stride, w / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        out: Tensor = self.relu2(y + shortcut)
        return out


class Bottleneck(resnet.Bottleneck):  # type: ignore[misc, name-defined]
    """torchvision's bottleneck block (stride in the 3x3 convolution) with a separate ReLU module for each use."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        del self.relu
        self.relu1, self.relu2, self.relu3 = nn.ReLU(), nn.ReLU(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map float (n, c, h, w) to (n, 4 * planes, h / stride, w / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.relu2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        out: Tensor = self.relu3(y + shortcut)
        return out


def _build_resnet(block: type[nn.Module], layers: tuple[int, ...], classes: int, channels: int, size: int) -> nn.Module:
    """Build a torchvision ResNet with a stem that suits the image size.

    Images above 64 pixels get torchvision's 7x7 stem with stride 2 and max-pooling, images from 33 to 64 pixels get the
    same stem without max-pooling, and images up to 32 pixels get a 3x3 stem with stride 1 without max-pooling. For
    images of up to 224 pixels, the last feature map then has up to 7 positions per side.
    """
    model: nn.Module = resnet.ResNet(block, list(layers), num_classes=classes, zero_init_residual=True)
    kernel, stride = (3, 1) if size <= 32 else (7, 2)
    if (channels, kernel) != (3, 7):
        model.conv1 = nn.Conv2d(channels, 64, kernel, stride, padding=kernel // 2, bias=False)
    if size <= 64:
        model.maxpool = nn.Identity()
    model.relu = nn.ReLU()
    return model


def resnet18(classes: int, channels: int, size: int) -> nn.Module:
    return _build_resnet(BasicBlock, (2, 2, 2, 2), classes, channels, size)


def resnet50(classes: int, channels: int, size: int) -> nn.Module:
    return _build_resnet(Bottleneck, (3, 4, 6, 3), classes, channels, size)


def small_vit(classes: int, channels: int, size: int) -> nn.Module:
    """Build a vision transformer (Dosovitskiy et al. 2021) with 4 layers of width 64, on 4 x 4 to 8 x 8 patches."""
    side = max(count for count in range(1, _SIDE + 1) if size % count == 0)
    if side < _SIDE // 2:
        seen = f"vit-quick cannot divide {size} x {size} pixels into patches"
        raise CallerError(f"{seen}; write a size such as 32, 48 or 64")
    patch = size // side
    model: nn.Module = import_torchvision_models().VisionTransformer(
        image_size=size,
        patch_size=patch,
        num_layers=_DEPTH,
        num_heads=_HEADS,
        hidden_dim=_DIM,
        mlp_dim=2 * _DIM,
        num_classes=classes,
    )
    if channels != 3:
        model.conv_proj = nn.Conv2d(channels, _DIM, patch, patch)
    # torchvision initialises the head with 0, so the maps of an untrained network would be 0 everywhere
    head = model.get_parameter("heads.head.weight")
    nn.init.normal_(head, std=0.01)
    return model


def small_convnext(classes: int, channels: int, size: int) -> nn.Module:
    """Build a ConvNeXt (Liu et al. 2022) with three stages of 16, 32 and 64 channels, on patches of 4 or 2 pixels."""
    convnext = import_torchvision_models().convnext
    block = convnext.CNBlockConfig
    stages = [block(16, 32, 1), block(32, 64, 2), block(64, None, 1)]
    model: nn.Module = convnext.ConvNeXt(stages, stochastic_depth_prob=0.0, layer_scale=1.0, num_classes=classes)
    patch = 4 if size >= 32 else 2
    stem = nn.Conv2d(channels, 16, patch, patch)
    nn.init.trunc_normal_(stem.weight, std=0.02)
    model.set_submodule("features.0.0", stem)
    return model
