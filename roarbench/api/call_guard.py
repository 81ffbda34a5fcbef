"""Call a caller's functions so that the networks, and torch, are afterwards as before."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from roarbench.api.torch_patches import TorchFunctions
from roarbench.api.torch_settings import read_settings, restore_settings
from roarbench.api.user_networks import find_own_network, refuse_changes_of_network
from roarbench.common.errors import CallerError
from roarbench.common.text import list_some
from roarbench.submissions.network_changes import NetworkState, compute_logits_and_gradients

_PATCH_REMEDY = "put the originals back at the end, or compute these maps in a process of their own and pass the arrays"
_SETTING_REMEDY = "change settings in a `with` block, such as `with torch.no_grad():`, or restore them at the end"


class CallGuard:
    """The state of networks and of torch, to which both return after each call of a function."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self._networks = list(map(find_own_network, networks))
        self._states = list(map(NetworkState.read, self._networks))
        self._functions = TorchFunctions.read(self._networks)
        self._settings = read_settings()
        self._called = set[tuple[str, int]]()
        self.undone = set[str]()  # functions whose first call for a network left harmless changes, such as hooks

    @contextmanager
    def protect(self, name: str, number: int, images: Tensor) -> Iterator[None]:
        """Undo what the function `name` changes while it explains images (n, c, h, w) by network `number`.

        After the first call for a network, the other networks, and logits of these images, are compared, too.

        Raises:
            CallerError: The function changed what the networks or torch compute after its end.
        """
        network, first = self._networks[number], (name, number) not in self._called
        self._called.add((name, number))
        for state in self._states if first else ():
            state.restore()  # passes of other estimators may have changed a buffer, such as a counter
        logits = compute_logits_and_gradients(network, images)[0] if first else None
        with refuse_changes_of_network(network, name, images, self._states[number]):
            try:
                yield
                if first and not self._states[number].has_same_outputs():
                    self.undone.add(name)
            finally:
                settings = restore_settings(self._settings)
                patches = self._functions.restore()
            if patches:
                seen = f"{name} replaced {list_some(patches)} for all rows and networks"
                raise CallerError(f"{seen}; {_PATCH_REMEDY}")
            if settings:
                raise CallerError(f"{name} changed {list_some(settings)} of torch; {_SETTING_REMEDY}")
        if first:
            self._refuse_other_changes(name, number, images, logits)

    def _refuse_other_changes(self, name: str, number: int, images: Tensor, logits: Tensor | None) -> None:
        for network, state in zip(self._networks, self._states, strict=True):
            if state.has_same_outputs():
                continue
            is_kept = state.is_kept_by(network)
            state.restore()
            if not is_kept:
                raise CallerError(f"{name} modified a network that it does not explain; use only the given model")
        again, _ = compute_logits_and_gradients(self._networks[number], images)
        if logits is not None and (again is None or not torch.equal(logits, again)):
            seen = f"after a call of {name}, the network returns other logits for the same images"
            raise CallerError(f"{seen}; start Python anew, and compute these maps in a process of their own")
