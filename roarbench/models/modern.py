"""A small vision transformer and a small ConvNeXt: torchvision's classes, at the size of `resnet-quick`."""

from torch import nn

from roarbench.errors import CallerError
from roarbench.models.vision import torchvision_models

_DIM, _DEPTH, _HEADS = 64, 4, 4  # of the transformer
_SIDE = 8  # patches of the transformer along a side at most


def small_vit(classes: int, channels: int, size: int) -> nn.Module:
    """Build a vision transformer (Dosovitskiy et al. 2021) of 4 layers and 64 numbers a token, on 8 x 8 patches.

    On as many as 4 x 4 where no larger number divides the size.

    Raises:
        CallerError: The size has no divisor from 4 to 8.
    """
    side = max(count for count in range(1, _SIDE + 1) if size % count == 0)
    if side < _SIDE // 2:
        raise CallerError(
            f"vit-quick cannot cut {size} x {size} pixels into patches; write a size such as 32, 48 or 64"
        )
    models = torchvision_models()
    model: nn.Module = models.VisionTransformer(
        image_size=size,
        patch_size=size // side,
        num_layers=_DEPTH,
        num_heads=_HEADS,
        hidden_dim=_DIM,
        mlp_dim=2 * _DIM,
        num_classes=classes,
    )
    if channels != 3:
        patch = size // side
        model.conv_proj = nn.Conv2d(channels, _DIM, patch, patch)
    for name, weight in model.named_parameters():
        if name == "heads.head.weight":  # torchvision starts it at 0: a network with random weights would have no maps
            nn.init.normal_(weight, std=0.01)
    return model


def small_convnext(classes: int, channels: int, size: int) -> nn.Module:
    """Build a ConvNeXt (Liu et al. 2022) of three stages with 16, 32 and 64 channels, on patches of 4 pixels.

    Below 32 pixels on patches of 2.
    """
    models = torchvision_models()
    convnext = models.convnext
    stages = [
        convnext.CNBlockConfig(16, 32, 1),
        convnext.CNBlockConfig(32, 64, 2),
        convnext.CNBlockConfig(64, None, 1),
    ]
    model: nn.Module = convnext.ConvNeXt(stages, stochastic_depth_prob=0.0, layer_scale=1.0, num_classes=classes)
    patch = 4 if size >= 32 else 2
    stem = nn.Conv2d(channels, 16, patch, patch)
    nn.init.trunc_normal_(stem.weight, std=0.02)
    model.set_submodule("features.0.0", stem)
    return model
