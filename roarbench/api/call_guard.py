"""Call a caller's functions so that the networks, and torch, are afterwards as before."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from roarbench.api.torch_patches import TorchFunctions
from roarbench.api.torch_settings import read_settings, restore_settings
from roarbench.api.user_networks import find_own_network, refuse_changes_of_network
from roarbench.common.errors import CallerError
from roarbench.common.text import list_some
from roarbench.submissions.network_changes import NetworkState

_PATCH_REMEDY = "put the originals back at the end, or compute these maps in a process of their own and pass the arrays"
_SETTING_REMEDY = "change settings in a `with` block, such as `with torch.no_grad():`, or restore them at the end"


class CallGuard:
    """The state of networks and of torch, to which both return after each call of a function."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self._networks = list(map(find_own_network, networks))
        self._states = list(map(NetworkState.read, self._networks))
        self._functions = TorchFunctions.read(self._networks)
        self._settings = read_settings()

    @contextmanager
    def protect(self, name: str, number: int, images: Tensor) -> Iterator[None]:
        """Undo what the function `name` changes while it explains images (n, c, h, w) by network `number`.

        Raises:
            CallerError: The function changed what the network or torch computes after its end.
        """
        with refuse_changes_of_network(self._networks[number], name, images, self._states[number]):
            try:
                yield
            finally:
                settings = restore_settings(self._settings)
                patches = self._functions.restore()
            if patches:
                seen = f"{name} replaced {list_some(list(map(str, patches)))} for all rows and networks"
                raise CallerError(f"{seen}; {_PATCH_REMEDY}")
            if settings:
                raise CallerError(f"{name} changed {list_some(settings)} of torch; {_SETTING_REMEDY}")
