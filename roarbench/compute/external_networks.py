"""Make networks from torchvision, timm or a Python file, and wrap networks with unusual inputs or outputs."""

import importlib
import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from roarbench.common.errors import CallerError, UnknownName
from roarbench.common.process_settings import convert_exit_to_error
from roarbench.common.text import describe_error
from roarbench.compute.builtin_network_table import MODELS
from roarbench.compute.saved_networks import SavedWithSource

TORCHVISION, TIMM = "torchvision:", "timm:"  # prefixes of the names of networks
_declared: list[torch.library.Library] = []  # a declaration is valid only as long as its Library object exists
# files that were run, by the network that each built
_definitions: WeakKeyDictionary[nn.Module, tuple[ModuleType, str]] = WeakKeyDictionary()
T = TypeVar("T")
TWO_CLASSES = ((-0.5,), (0.5,))  # weights of the layer of `add_second_logit`; training leaves them unchanged


def call_despite_missing_operators(function: Callable[[], T]) -> T:
    """Call a function that may import torchvision; if torchvision's operators are missing, declare them and repeat.

    The import of a torchvision that was built for another torch fails, because torchvision registers shape rules for
    operators that were not loaded. Classification networks need none of these operators. The repetition starts with
    the same state of torch's global generator.
    """
    state = torch.get_rng_state()
    try:
        return function()
    except RuntimeError as error:
        if "operator torchvision::nms does not exist" not in str(error):
            raise
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    _declared.append(library)
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
    torch.set_rng_state(state)
    return function()


def import_torchvision_models() -> ModuleType:
    """Import torchvision's package of classification networks, which takes seconds."""
    return call_despite_missing_operators(lambda: importlib.import_module("torchvision.models"))


def make_user_or_library_network(name: str, source: str, classes: int, channels: int, size: int) -> nn.Module:
    """Make a network with weights from torch's global generator; raise CallerError if the network cannot be made."""
    if source:
        return _make_network_from_source(name, source, classes, channels, size)
    if name.startswith(TORCHVISION):
        name, models = name.removeprefix(TORCHVISION), import_torchvision_models()
        known = models.list_models(module=models)
        if name not in known:
            raise UnknownName("network of torchvision", name, known)
        if channels != 3:
            seen = f"torchvision:{name} is made for colour images, but these have {channels} channel"
            raise CallerError(f"{seen}; write channels = 3")
        settings: dict[str, Any] = {"image_size": size} if name.startswith("vit") else {}
        settings |= {"aux_logits": False, "init_weights": True} if name in ("googlenet", "inception_v3") else {}
        try:
            network: nn.Module = models.get_model(name, weights=None, num_classes=classes, **settings)
        except (AssertionError, ValueError, RuntimeError) as error:  # patches that do not divide the size, for example
            raise CallerError(f"torchvision:{name} cannot be made for images of {size} pixels: {error}") from error
    elif name.startswith(TIMM):
        name = name.removeprefix(TIMM)
        timm = import_timm_and_check_network(name)
        settings = {"num_classes": classes, "in_chans": channels}
        try:
            network = timm.create_model(name, img_size=size, **settings)
        except TypeError:  # most networks have no `img_size`, because they take images of any size
            network = timm.create_model(name, **settings)
    else:
        raise UnknownName("model", name, MODELS)
    return network


def import_timm_and_check_network(network: str) -> Any:
    """Return timm; raise CallerError if it is not installed or lacks the network."""
    try:
        timm = call_despite_missing_operators(lambda: importlib.import_module("timm"))  # it imports torchvision
    except ImportError:
        raise CallerError(f"{TIMM}{network} needs timm, which is not installed; run pip install timm") from None
    if not timm.is_model(network):
        raise UnknownName("timm network", network, timm.list_models())
    return timm


class BuilderFailed(CallerError):
    """A file that builds a network, or its function, raised an error."""


def _make_network_from_source(name: str, source: str, classes: int, channels: int, size: int) -> nn.Module:
    """Run a Python file and call its function without a sandbox, because a user who names a file trusts the file."""
    stem, _, function = name.partition("@")[0].rpartition(".")
    file = f"{stem}.py"
    # tracebacks show source lines from this cache
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = ModuleType(stem)
    try:
        with convert_exit_to_error():
            code = compile(source, file, "exec")
            call_despite_missing_operators(lambda: exec(code, module.__dict__))
    except Exception as error:
        seen = f"{file} raised {describe_error(error)}"
        raise BuilderFailed(f"{seen}; the file must be self-contained and import only installed packages") from error
    maker = getattr(module, function, None)
    if not callable(maker):
        raise CallerError(f"{file} has no function '{function}'; write def {function}(classes, channels, size)")
    try:
        with convert_exit_to_error():
            network = call_despite_missing_operators(lambda: maker(classes, channels, size))
    except Exception as error:
        seen = f"{function}({classes}, {channels}, {size}) of {file} raised {describe_error(error)}"
        raise BuilderFailed(f"{seen}; write def {function}(classes, channels, size)") from error
    if not isinstance(network, nn.Module):
        raise CallerError(f"{function} of {file} returned {type(network).__name__}, expected a torch.nn.Module")
    for weight in (tensor for tensor in (*network.parameters(), *network.buffers()) if tensor.is_floating_point()):
        if weight.device.type != "cpu" or weight.dtype is not torch.float32:
            kind = str(weight.dtype).removeprefix("torch.")
            seen = f"{function} of {file} returned weights in {kind} on the device {weight.device}"
            raise CallerError(f"{seen}, expected float32 on the CPU; return the network with .float().cpu()")
    # a script module takes no hooks, but its outputs are tensors already
    if not isinstance(network, torch.jit.ScriptModule):
        # unlike a wrapper, a hook does not change the names of the weights
        network.register_forward_hook(make_logits_hook(extract_logits), with_kwargs=True)
        _definitions[network] = module, source
    return network


def add_source_to_pickles(network: nn.Module) -> nn.Module:
    """Change a network from a Python file, in place, so that its pickles contain the file; return any network."""
    if network in _definitions:
        SavedWithSource.replace_class(network, *_definitions[network])
    return network


def extract_logits(output: Any) -> Any:
    """Return `output.logits` if the output has this attribute, as in Hugging Face's classifiers; else the output.

    A tensor of a class that only names it, such as fastai's `TensorBase`, becomes a plain tensor.
    """
    logits = getattr(output, "logits", output)
    is_plain = type(logits) is Tensor or not isinstance(logits, Tensor)
    if is_plain or type(logits).__torch_dispatch__ is not Tensor.__torch_dispatch__:  # torch's own, such as a DTensor
        return logits
    with torch._C.DisableTorchFunctionSubclass():
        return logits.as_subclass(Tensor)


def make_logits_hook(adapt: Callable[[Any], Any]) -> Callable[..., Any]:
    """Make a forward hook (`with_kwargs`) that returns `adapt(output)` if a network is called with images alone.

    A call with other arguments, such as `output_attentions=True`, returns the network's own output. If this output has
    the attribute `logits`, the adapted output has its attributes, too, so a function may also read
    `model(images).logits` or `model(images).attentions`.
    """
    return _LogitsHook(adapt)


@dataclass(frozen=True)
class _LogitsHook:
    """The hook of `make_logits_hook`, which a pickle can contain, unlike a function within a function."""

    adapt: Callable[[Any], Any]

    def __call__(self, module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any], output: Any) -> Any:
        if len(arguments) != 1 or options:
            return output
        logits = self.adapt(output)
        if not hasattr(output, "logits") or not isinstance(logits, Tensor):
            return logits
        shown: Any = logits.view_as(logits)  # another object: an attribute with the tensor itself would be a cycle
        vars(shown).update(getattr(output, "__dict__", {}) | {"logits": logits})  # a named tuple has no `__dict__`
        return shown


class WrappedNetwork(nn.Sequential):
    """A user's network between layers that adapt its images (`before`) and its output (`after`)."""

    def __init__(self, before: Sequence[nn.Module], network: nn.Module, after: Sequence[nn.Module]) -> None:
        super().__init__(*before, network, *after)
        self.position = len(before)
        self.training = False  # the network is in eval mode already, and a program of torch.export refuses `eval`
        for layer in (*before, *after):
            layer.eval()

    @property
    def inner(self) -> nn.Module:
        """Return the wrapped network, which may be a `WrappedNetwork`, too."""
        return self[self.position]

    def adapt_output(self, output: Any) -> Any:
        """Convert the output of the user's network to the output of this network."""
        if isinstance(self.inner, WrappedNetwork):
            output = self.inner.adapt_output(output)
        for layer in list(self)[self.position + 1 :]:
            output = layer(output)
        return output


class TakeLogits(nn.Module):
    """A layer that follows a network whose output is an object with the attribute `logits`."""

    def forward(self, output: Any) -> Any:
        """Return logits, (n, classes)."""
        return extract_logits(output)


class MakeContiguous(nn.Module):
    """A layer before a network whose `.view` fails for channels-last images."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the images in torch's default memory format."""
        return images.contiguous()


@torch.no_grad()
def wrap_to_return_logits(model: nn.Module, images: Tensor) -> nn.Module:
    """Return a network in eval mode that accepts channels-last images and returns logits, wrapped if necessary."""
    before: list[nn.Module] = []
    try:
        try:
            output = model(images.contiguous(memory_format=torch.channels_last).clone())
        except RuntimeError as error:
            if "view size is not compatible" not in str(error):  # `.view` failed because of the memory format
                raise
            before = [MakeContiguous()]
            output = model(images.clone())
    except Exception:  # `network_checks.check_network_outputs` reports the error
        return model
    after = [] if extract_logits(output) is output else [TakeLogits()]
    return WrappedNetwork(before, model, after) if before or after else model


@torch.no_grad()
def add_second_logit(model: nn.Module, images: Tensor) -> nn.Module:
    """Wrap a network with a single logit z so that it returns -z / 2 and z / 2; return other networks unchanged.

    The softmax of -z / 2 and z / 2 gives class 1 the probability sigmoid(z), and both logits have a gradient; if the
    logits were 0 and z, the first logit would have no gradient. The network must be in eval mode and is not changed;
    `images` are two or more inputs, (n, c, h, w).
    """
    try:
        output = model(images.clone())
    except Exception:  # `network_checks.check_network_outputs` reports the error
        return model
    if not isinstance(output, Tensor) or output.shape not in ((len(images),), (len(images), 1)):
        return model
    if not output.is_floating_point():  # `network_checks.check_network_outputs` reports outputs that are classes
        return model
    # Flatten(0) and Unflatten give an output (n,) a second axis, even if n = 1
    column = () if output.ndim == 2 else (nn.Flatten(0), nn.Unflatten(0, (-1, 1)))
    # a layer on the meta device draws no weights from torch's global generator
    head = nn.Linear(1, 2, bias=False, device="meta").to_empty(device=output.device).to(output)
    head.weight.copy_(torch.tensor(TWO_CLASSES)).requires_grad_(False)
    return WrappedNetwork([], model, [*column, head])
