"""The table of networks. Nothing here imports torch."""

from typing import NamedTuple


class NetworkRecord(NamedTuple):
    """One network."""

    maker: str  # file of this folder and function that makes it of (classes, channels, size)
    drawn: bool = False  # its weights are those that torch's or torchvision's code draws


MODELS = {
    "resnet8": NetworkRecord("small_networks.resnet8"),
    "resnet-quick": NetworkRecord("small_networks.resnet_quick"),
    "resnet-planted": NetworkRecord("small_networks.resnet_planted"),
    "resnet18": NetworkRecord("torchvision_resnets.resnet18"),
    "resnet50": NetworkRecord("torchvision_resnets.resnet50"),
    "vit-quick": NetworkRecord("vit_and_convnext.small_vit", drawn=True),
    "convnext-quick": NetworkRecord("vit_and_convnext.small_convnext", drawn=True),
    "mlp": NetworkRecord("small_networks.multilayer_perceptron", drawn=True),
}
