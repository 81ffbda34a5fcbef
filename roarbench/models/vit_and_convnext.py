"""A small vision transformer and a small ConvNeXt: torchvision's classes, at the size of `resnet-quick`."""

from torch import nn

from roarbench.errors import CallerError
from roarbench.models.torchvision_models import import_torchvision_models

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
    head = model.get_parameter("heads.head.weight")  # torchvision starts it at 0: random weights would have no maps
    nn.init.normal_(head, std=0.01)
    return model


def small_convnext(classes: int, channels: int, size: int) -> nn.Module:
    """Build a ConvNeXt (Liu et al. 2022) of three stages with 16, 32 and 64 channels, on patches of 4 pixels.

    Below 32 pixels on patches of 2.
    """
    convnext = import_torchvision_models().convnext
    block = convnext.CNBlockConfig
    stages = [block(16, 32, 1), block(32, 64, 2), block(64, None, 1)]
    model: nn.Module = convnext.ConvNeXt(stages, stochastic_depth_prob=0.0, layer_scale=1.0, num_classes=classes)
    patch = 4 if size >= 32 else 2
    stem = nn.Conv2d(channels, 16, patch, patch)
    nn.init.trunc_normal_(stem.weight, std=0.02)
    model.set_submodule("features.0.0", stem)
    return model
