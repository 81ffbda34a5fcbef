"""Stand-ins for torch, captum, NumPy and modules that import torch or NumPy; each is imported at first use.

Every start of the program loads the declarations of the estimators, and importing torch takes a second. Only the files
of `families`, `estimator.py`, `random_draws.py` and `compute/fills.py` import torch from this module.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "F", "Tensor", "backward_rules", "captum", "device_settings", "layer_search", "lrp_network", "lrp_rules", "nn",
    "np", "planted_images", "random_draws", "torch",
]  # fmt: skip

if TYPE_CHECKING:
    import numpy as np
    import torch
    import torch.nn.functional as F
    from captum import attr as captum
    from captum.attr._utils import lrp_rules  # captum exports the rules only from this private module
    from torch import Tensor, nn

    from roarbench.common import device_settings
    from roarbench.datasets import planted_images
    from roarbench.estimators import backward_rules, layer_search, lrp_network, random_draws
else:

    class _LazyModule:
        def __init__(self, module: str) -> None:
            self._module = module

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self._module), name)

    Tensor = Any
    torch, nn, F = (_LazyModule(name) for name in ("torch", "torch.nn", "torch.nn.functional"))
    captum, lrp_rules = _LazyModule("captum.attr"), _LazyModule("captum.attr._utils.lrp_rules")
    np = _LazyModule("numpy")
    device_settings = _LazyModule("roarbench.common.device_settings")
    planted_images = _LazyModule("roarbench.datasets.planted_images")
    backward_rules = _LazyModule("roarbench.estimators.backward_rules")
    layer_search = _LazyModule("roarbench.estimators.layer_search")
    lrp_network = _LazyModule("roarbench.estimators.lrp_network")
    random_draws = _LazyModule("roarbench.estimators.random_draws")
