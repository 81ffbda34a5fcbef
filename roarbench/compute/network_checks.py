"""Check a network before use: an image's logits depend on this image alone, and its gradient is their derivative."""

import pickle
import random
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.nn.functional import normalize
from torch.overrides import TorchFunctionMode

from roarbench.common.device_settings import is_out_of_memory, read_global_generator_states
from roarbench.common.errors import CallerError
from roarbench.common.process_settings import convert_exit_to_error
from roarbench.common.text import describe_error, describe_type, list_some
from roarbench.compute.external_networks import TWO_CLASSES, extract_logits

# images for the check of a network: a prime, so that networks that divide a batch into equal parts have a rest
CHECKED_IMAGES = 13
_NETWORK = "the network"
_CHANNELS = (1, 3, 4)  # usual numbers of channels
# of the differences of logits with which a gradient is compared
_STEP = 1e-4  # the length of the step, on the scale of the images
_AGREEMENT = 0.005  # of the differences in both senses; if they disagree, a kink is between, and they say nothing
_MOST_ERROR = 0.03
_NEAR_ZERO = 10.0
_FAR_MORE = 100  # times rounding: outputs that differ by less between images may have one sum by chance
_ROUNDING = 1e4 * torch.finfo(torch.float64).eps  # of the largest output; smaller differences may be rounding alone


@torch.no_grad()
def check_network_outputs(model: nn.Module, images: Tensor, name: str = _NETWORK) -> list[str]:
    """Run a network a few times on some images, and raise CallerError if its maps and scores would be meaningless.

    The network must accept `images`, normalised float (n, c, h, w), as a batch and one by one. The network must return
    finite logits (n, classes), leave the images unchanged, and give an image the same logits in every call, alone or in
    a batch. `model` is in eval mode and is not changed.

    Returns:
        One-line warnings, for example that the network seems to return probabilities instead of logits.
    """
    if any(key.endswith("observer_enabled") and buffer.any() for key, buffer in model.named_buffers()):
        seen = f"{name} has observers, which change its quantisation in each pass"
        raise CallerError(f"{seen}; switch them off by .apply(torch.ao.quantization.disable_observer)")
    copied = images.clone()
    logits = compute_checked_logits(model, copied, name)
    if not torch.equal(copied, images):
        seen = f"{name} modifies its input images in place, so every later pass would get other images"
        raise CallerError(f"{seen}; begin its forward with x = x.clone()")
    # before the second call, because a generator that each call seeds anew has the same state after each
    generators = _read_generator_states(model)
    again = compute_checked_logits(model, images.clone(), name)
    draws = _read_generator_states(model) != generators
    if not are_logits_equal(logits, again):
        seen = f"{name} gives different logits for the same images when called again"
        remedy = "remove random operations in eval mode, such as F.dropout without training=self.training"
        if not draws and (kept := _list_tensors_changed_by_call(model, images)):
            remedy = f"its forward keeps {list_some(kept)} for the next call: reset this memory at the start of forward"
        raise CallerError(f"{seen}; {remedy}")
    alone = torch.cat([compute_checked_logits(model, image[None].clone(), name) for image in images])
    if not are_logits_equal(logits, alone):
        seen = f"{name} gives an image different logits alone than in a batch"
        examples = "batch norm without running statistics or dynamic quantisation"
        raise CallerError(f"{seen}; remove operations that mix images, such as {examples}")
    if _changes_with_gradients(model, images[:2], logits[:2]):
        seen = f"{name} gives other logits while torch records gradients, so maps would explain another function"
        raise CallerError(f"{seen}; remove branches on torch.is_grad_enabled() or requires_grad")
    drawn = f"{name} draws random numbers in eval mode; if they change any logits, the results are wrong: remove them"
    return [*_list_warnings(logits, name), *[drawn] * draws]


def _changes_with_gradients(model: nn.Module, images: Tensor, logits: Tensor) -> bool:
    try:
        with torch.enable_grad():
            recorded = extract_logits(model(images.clone().requires_grad_()))
    except Exception:  # the user's network may raise anything; gradients then fail with a message of their own
        return False
    return not are_logits_equal(logits, recorded.detach())


def _read_generator_states(model: nn.Module) -> list[Any]:
    """Return the states of the global random generators, and of those that are attributes of a network's modules."""
    states: list[Any] = [read_global_generator_states()]
    for value in (value for module in model.modules() for value in vars(module).values()):
        if isinstance(value, torch.Generator):  # its pickles differ
            states.append(value.get_state().numpy().tobytes())
        elif isinstance(value, np.random.Generator | np.random.RandomState | random.Random):
            states.append(pickle.dumps(value))
    return states


@torch.no_grad()
def load_state_and_check_logits(model: nn.Module, rebuilt: nn.Module, images: Tensor, name: str = _NETWORK) -> None:
    """Raise CallerError if a network's state dict does not determine the network's logits for normalised images.

    `rebuilt` is another instance of the network, built with other random weights. The function loads the state dict of
    `model` into `rebuilt` and compares the logits of the two networks, which are in eval mode. CallerError, too, for
    entries of the state dict that are not dense tensors: files of weights hold nothing else.
    """
    for key, value in model.state_dict().items():
        if not isinstance(value, Tensor) or value.layout is not torch.strided or value.is_quantized:
            kind = "a sparse or quantised tensor" if isinstance(value, Tensor) else describe_type(value)
            seen = f"'{key}' of the state dict of {name} is {kind}, expected a dense tensor, because weights are stored"
            raise CallerError(f"{seen}; change this, or use rb.check, which stores no network")
    rebuilt.load_state_dict(model.state_dict())
    logits, rebuilt_logits = (compute_checked_logits(network, images.clone(), name) for network in (model, rebuilt))
    if are_logits_equal(logits, rebuilt_logits):
        return
    in_state = model.state_dict().keys()
    outside = ", ".join(path for path, _ in _list_attributes(model) if path not in in_state)
    outside = outside or "random numbers or a random order"
    seen = f"{name}, built again with the same state dict, gives different logits: its construction draws {outside}"
    raise CallerError(f"{seen}; register each as a buffer (self.register_buffer), or use a fixed seed")


def compute_checked_logits(model: nn.Module, images: Tensor, name: str = _NETWORK) -> Tensor:
    """Return the logits of some images; raise CallerError if the output is not finite logits (n, classes)."""
    shape = " x ".join(map(str, images.shape))
    try:
        with convert_exit_to_error():
            logits: Any = extract_logits(model(images))
    except Exception as error:  # the user's network may raise anything
        if is_out_of_memory(error):
            raise
        seen = describe_error(error)
        remedy = _advise_on_refused_shape(model, tuple(images.shape))
        if re.search("type.*(half|bfloat16|double)", seen, re.IGNORECASE):
            remedy = "; its weights are used in float32, so its forward must not convert images, as x.half() does"
        raise CallerError(f"{name} does not accept a batch of shape {shape} ({seen}){remedy}") from error
    n = len(images)
    remedy = "; wrap it in a module whose forward returns them"
    if not isinstance(logits, Tensor):
        seen = describe_type(logits)
    elif logits.ndim != 2 or len(logits) != n or not logits.is_floating_point():
        seen = f"{logits.dtype} of shape {tuple(logits.shape)}".removeprefix("torch.")
    elif not logits.isfinite().all():
        seen, remedy = "logits that are NaN or infinite", ""
    else:
        return logits
    raise CallerError(
        f"{name} returned {seen} for a batch of shape {shape}; expected finite logits ({n}, classes){remedy}"
    )


def _advise_on_refused_shape(model: nn.Module, shape: tuple[int, ...]) -> str:
    if isinstance(model, GraphModule) and "_guards_fn" in dict(model.named_children()):  # from torch.export
        return '; export it for any number of images: dynamic_shapes=({0: torch.export.Dim("n")},)'
    if shape[2:] == (1, 1):  # rows of a table
        return "; a network of (n, columns) becomes nn.Sequential(nn.Flatten(), network)"
    channels_last = len(shape) == 4 and shape[3] in _CHANNELS and shape[1] not in _CHANNELS
    return "; the channels seem to be last: write images.permute(0, 3, 1, 2)" if channels_last else ""


@torch.enable_grad()
def have_logits_gradient(model: nn.Module, images: Tensor) -> bool:
    """Return whether a network's logits have a gradient with respect to the images.

    The result is True, too, if the network's forward or backward pass fails: then the gradient is not the cause.
    """
    inputs = images.clone().requires_grad_()
    try:
        logits = extract_logits(model(inputs))
        return logits.requires_grad and torch.autograd.grad(logits.sum(), inputs, allow_unused=True)[0] is not None
    except Exception:  # the user's network may raise anything
        return True


def _list_tensors_changed_by_call(model: nn.Module, images: Tensor) -> list[str]:
    """Return the paths of attributes that a forward pass replaces by other tensors, or by tensors of other values."""
    before = {path: (tensor, tensor.clone()) for path, tensor in _list_attributes(model)}
    model(images.clone())
    changed = []
    for path, now in _list_attributes(model):
        tensor, values = before.get(path, (None, now))
        if tensor is not now or not torch.equal(values, now):
            changed.append(path)
    return changed


def are_logits_equal(logits: Tensor, other_logits: Tensor) -> bool:
    """Return whether logits are equal up to rounding (torchvision's networks: 2e-6 of the largest logit in float32)."""
    if logits.shape != other_logits.shape:
        return False
    # a network may compute in float32 and return its logits in float64
    eps = max(torch.finfo(dtype).eps for dtype in (logits.dtype, torch.float32))
    rounding = eps**0.5 * torch.maximum(_measure_scale(logits), logits.detach().abs())
    return bool(((logits - other_logits).abs() <= rounding).all())


def _measure_scale(logits: Tensor) -> Tensor:
    """Return a scale of logits (n, classes), a scalar; unused classes with logits such as -1e9 have no influence."""
    two = logits.detach().topk(min(2, logits.shape[1])).values
    return torch.maximum(two[:, 0].abs(), two[:, 0] - two[:, -1]).max()


def _list_warnings(logits: Tensor, name: str) -> list[str]:
    exact = logits.double()
    rounding = max(1e-5, torch.finfo(logits.dtype).eps)

    # logits near 0, such as -z / 2 and z / 2, have one logsumexp up to rounding, too
    scale = exact.abs().max().clamp(min=_NEAR_ZERO)
    is_varied = bool((exact - exact[:1]).abs().max() > _FAR_MORE * rounding * scale)

    def are_normalised(totals: Tensor, usual: float) -> bool:
        """Return whether all totals, (n,), have the usual value or, of varied outputs, one value, as percentages do."""
        expected = totals[:1] if is_varied else torch.full_like(totals, usual)
        return bool(((totals - expected).abs() <= rounding * expected.abs().clamp(min=1)).all())

    if bool((exact >= 0).all()) and are_normalised(exact.sum(1), 1):
        seen, last_layer = "probabilities", "softmax"
    elif are_normalised(exact.logsumexp(1), 0):
        seen, last_layer = "logarithms of probabilities", "log_softmax"
    elif _look_like_sigmoid_outputs(exact):
        seen, last_layer = "numbers from 0 to 1", "sigmoid"
    else:
        return []
    wrong = "" if last_layer == "log_softmax" else f", and probabilities are wrong (the softmax of a {last_layer})"
    remedy = f"remove its last {last_layer}"
    if last_layer == "sigmoid":  # logits of a hardly trained network may lie between 0 and 1, too
        remedy = "if it ends in a sigmoid, remove that layer"
    return [f"{name} returns {seen} instead of logits, so maps explain the {seen}{wrong}; {remedy}"]


def list_single_logit_warnings(model: nn.Module, images: Tensor, name: str = _NETWORK) -> list[str]:
    """Return a warning if the single output of a network that `add_second_logit` wrapped seems to be a probability.

    `model` is the wrapped network, in eval mode; `images` are many normalised images, float (n, c, h, w).
    """
    with torch.no_grad():
        single = extract_logits(model(images))[:, 1] / TWO_CLASSES[1][0]
    if not _look_like_sigmoid_outputs(single):
        return []
    seen = f"{name} returns numbers from 0 to 1, which as logits all mean class 1"
    return [f"{seen}; if it ends in a sigmoid, remove that layer"]


def _look_like_sigmoid_outputs(logits: Tensor) -> bool:
    """Return whether all numbers are from 0 to 1, with numbers below 0.5 and numbers above 0.5."""
    low, high = float(logits.min()), float(logits.max())
    return 0 <= low < 0.5 < high <= 1


def _list_attributes(model: nn.Module) -> list[tuple[str, Tensor]]:
    """List the paths and values of buffers, and of tensors in other attributes or in dicts of them, without parameters.

    Neurons of spikingjelly keep their state in such a dict.
    """
    of_every_module, found = vars(nn.Module()).keys(), []
    for path, module in model.named_modules():
        own = {name: value for name, value in vars(module).items() if name not in of_every_module}
        for name, value in (own | dict(module._buffers)).items():
            parts = {f"{name}.{key}": part for key, part in value.items()} if type(value) is dict else {name: value}
            found += [(f"{path}.{key}".lstrip("."), part) for key, part in parts.items() if isinstance(part, Tensor)]
    return found


def describe_changed_gradient(model: nn.Module, images: Tensor, name: str = _NETWORK) -> str:
    """Describe a gradient that is not the derivative of the logits; empty if it is, or if this cannot be measured.

    Hooks and custom operations may change a gradient. `model` is in eval mode and is not changed: a copy in float64
    gets the first of the images, float (n, c, h, w). The derivative of its largest logit, along a random direction, is
    compared with differences.
    """
    image = images[:1].double()
    generator = torch.Generator().manual_seed(0)  # the global one is the caller's
    noise = torch.randn(image.shape, generator=generator, dtype=torch.float64).to(image)
    direction = normalize(noise.flatten(), dim=0)
    step = (_STEP * direction).view_as(image)

    def compute_logits_and_derivative(copies: int) -> tuple[Tensor, Tensor]:
        inputs = image.repeat(copies, 1, 1, 1).requires_grad_()
        with torch.enable_grad(), _StayInFloat64():
            logits = extract_logits(network(inputs))
            (gradient,) = torch.autograd.grad(logits[:, logits[0].argmax()].sum(), inputs)
        return logits.detach(), gradient[0].flatten() @ direction

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch about its own copies of scripts and exported programs
            network = _copy_to_float64(model)
        logits, derivative = compute_logits_and_derivative(1)
        target = logits[0].argmax()
        with torch.no_grad(), _StayInFloat64():
            before, after = (extract_logits(network(image + move))[0, target] for move in (-step, step))
    except Exception:  # the network's code may refuse a copy, float64 or gradients, in any way; other checks report it
        return ""
    slope = (after - before) / (2 * _STEP)
    steepest = torch.maximum(slope.abs(), derivative.abs())  # the slope of steps is 0, and their gradient may be any
    agrees = (after + before - 2 * logits[0, target]).abs() <= _AGREEMENT * _STEP * steepest
    differs = (derivative - slope).abs() > _MOST_ERROR * steepest
    is_rounded = 2 * _STEP * steepest <= _ROUNDING * _measure_scale(logits)
    if logits.dtype != torch.float64 or is_rounded or not agrees or not differs:
        return ""
    if (compute_logits_and_derivative(2)[1] - slope).abs() <= _MOST_ERROR * steepest:
        seen = f"the gradient of {name} is wrong for one image alone and right for two, as behind torch's batch norm"
        remedy = "built-in rows are right, but a function must explain two or more images in each pass"
        return f"{seen} if its output is transposed; {remedy}"
    hooked = list_modules_with_backward_hooks(model)
    cause = f"backward hooks of '{hooked[0]}'" if hooked else "a hook, detach, or an operation with its own backward"
    seen = f"the gradient of {name} is not the derivative of its logits because of {cause}"
    return f"{seen}; remove this, unless maps are meant to explain with the changed gradient"


def list_modules_with_backward_hooks(model: nn.Module) -> list[str]:
    """Return the paths of these modules."""
    modules = model.named_modules()
    return [path for path, module in modules if module._backward_hooks or module._backward_pre_hooks]


def _copy_to_float64(model: nn.Module) -> Callable[[Tensor], Any]:
    """Return a function that runs a network with copies of its weights in float64."""
    with suppress(Exception):  # a network may hold what cannot be copied, such as a lock
        return deepcopy(model).double().requires_grad_(False)
    tensors = dict([*model.named_parameters(), *model.named_buffers()])
    weights = {
        name: tensor.detach().double() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()
    }
    return lambda images: torch.func.functional_call(model, weights, images)


class _StayInFloat64(TorchFunctionMode):
    """A mode in which conversions to shorter floats, such as `x.float()`, convert to float64."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (Tensor.float, Tensor.half, Tensor.bfloat16):
            function = Tensor.double
        return function(*map(_lengthen, args), **{name: _lengthen(value) for name, value in (kwargs or {}).items()})


def _lengthen(value: Any) -> Any:
    """Return float64 for a shorter floating dtype, and any other value unchanged."""
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value
