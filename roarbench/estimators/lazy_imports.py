"""torch, captum and what needs them, imported when they are first used: the list of estimators is read at every start.

The files of `families` take torch from here, and nothing else does: to import it takes longer than most commands.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_OWN = ("guided_backprop", "cam_layers", "noise", "traced_network", "deeplift_rules", "affine_stem")
__all__ = ["F", "Tensor", "captum", "guided_backprop", "cam_layers", "lrp_rules", "nn", "noise"]
__all__ += ["traced_network", "deeplift_rules", "affine_stem", "torch"]

if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F
    from captum import attr as captum
    from captum.attr._utils import lrp_rules  # it exports them nowhere else
    from torch import Tensor, nn

    from roarbench.estimators import affine_stem, cam_layers, deeplift_rules, guided_backprop, noise, traced_network
else:

    class _Later:
        def __init__(self, module: str) -> None:
            self._module = module

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self._module), name)

    Tensor = Any
    torch, nn, F = (_Later(name) for name in ("torch", "torch.nn", "torch.nn.functional"))
    captum, lrp_rules = _Later("captum.attr"), _Later("captum.attr._utils.lrp_rules")
    guided_backprop, cam_layers, noise, traced_network, deeplift_rules, affine_stem = (
        _Later(f"roarbench.estimators.{name}") for name in _OWN
    )
