"""The table of networks. Nothing here imports torch."""

from typing import NamedTuple


class NetworkRecord(NamedTuple):
    """One network."""

    maker: str  # file of this folder and function that makes it of (classes, channels, size)
    drawn: bool = False  # its weights are those that torch's or torchvision's code draws


MODELS = {
    "resnet8": NetworkRecord("small.resnet8"),
    "resnet-quick": NetworkRecord("small.resnet_quick"),
    "resnet-planted": NetworkRecord("small.resnet_planted"),
    "resnet18": NetworkRecord("large.resnet18"),
    "resnet50": NetworkRecord("large.resnet50"),
    "vit-quick": NetworkRecord("modern.small_vit", drawn=True),
    "convnext-quick": NetworkRecord("modern.small_convnext", drawn=True),
    "mlp": NetworkRecord("small.multilayer_perceptron", drawn=True),
}
