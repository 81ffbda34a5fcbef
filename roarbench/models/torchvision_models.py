"""torchvision's classification networks, also where its compiled operators do not match torch.

A torchvision built for another torch (a wheel for CUDA beside a torch for the CPU, say) fails on import with "operator
torchvision::nms does not exist": it registers shape rules for operators that its library could not load. The networks
need none of these operators, so they are declared, without a kernel, and the import is tried again.
"""

import importlib
from types import ModuleType
from typing import Any

import torch

from roarbench.errors import UnknownName

_BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_declared: list[torch.library.Library] = []  # a declaration lives as long as its library object


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except RuntimeError as error:
        if "operator torchvision::nms does not exist" not in str(error):
            raise
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    _declared.append(library)
    for operator in ("nms", "qnms"):
        library.define(operator + _BOXES)  # type: ignore[no-untyped-call]
    return importlib.import_module(name)


resnet = _import("torchvision.models.resnet")


def find_weights(network: str, weights: str) -> Any:
    """Return weights of a network, as torchvision calls both; UnknownName where there are none."""
    models = import_torchvision_models()
    try:
        known = models.get_model_weights(network)
    except ValueError:
        raise UnknownName("network of torchvision", network, models.list_models(module=models)) from None
    if weights not in known.__members__:
        raise UnknownName(f"weights of torchvision:{network}", weights, known.__members__)
    return known[weights]


def import_torchvision_models() -> ModuleType:
    """Return torchvision's package of classification networks, which takes longer to import than `resnet` alone."""
    return _import("torchvision.models")
