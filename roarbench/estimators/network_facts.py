"""Facts about networks that cost passes to find, such as the layer of class activation maps."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from roarbench.estimators.lazy_torch import nn

_facts: WeakKeyDictionary[nn.Module, dict[Any, Any]] = WeakKeyDictionary()


def recall_facts(model: nn.Module) -> dict[Any, Any]:
    """Return what is known of a network; callers add to this dict."""
    # a wrapper that is made anew for each batch names the network that stays
    return _facts.setdefault(getattr(model, "lasting_network", model), {})


def forget_facts(model: nn.Module) -> None:
    """Forget what is known of a network, which its owner may have changed."""
    _facts.pop(model, None)
