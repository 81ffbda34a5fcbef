"""Correct the gradients of convolution weights that oneDNN computes wrongly on a CPU."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from roarbench.compute.networks import MAX_STRIDED_SIDE, ONEDNN_BLOCK


class CorrectedGradients(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that recomputes the gradients of convolution weights that oneDNN computes wrongly.

    The mode intercepts every convolution of a backward pass, in any module, function or script. `changed` is True if
    a gradient was corrected; all other gradients are bit for bit unchanged.
    """

    changed = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled on a CPU, and the default would import torch's compiler for seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Perform one operation of torch, and correct its gradients if necessary."""
        if func is torch.ops.aten.convolution_backward.default:
            _, images, weight, _, stride, padding, dilation, transposed, _, groups, _ = args
            if not transposed and max(stride) > 1:
                bf16 = images.dtype is torch.bfloat16
                if bf16 and has_weights_only_on_padding(images, weight, stride, padding, dilation):
                    self.changed = True
                    gradients = func(*(arg.float() if isinstance(arg, Tensor) else arg for arg in args))
                    return [gradient if gradient is None else gradient.bfloat16() for gradient in gradients]
                if _overruns_workspace(images, weight, padding, groups):
                    self.changed = True
                    return _compute_without_stride(func, args)
        return func(*args, **(kwargs or {}))


def has_weights_only_on_padding(
    images: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> bool:
    """Return whether some weights of a convolution are only ever multiplied with padding.

    The gradient of such weights is 0. With a stride, in bfloat16 and channels last, oneDNN returns uninitialised memory
    for these gradients; we saw the fault for strides larger than the image.
    """
    dimensions = zip(images.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    for side, kernel, step, pad, apart in dimensions:
        outputs = (side + 2 * pad - apart * (kernel - 1) - 1) // step + 1
        for tap in range(kernel):
            if not any(0 <= position * step + tap * apart - pad < side for position in range(outputs)):
                return True
    return False


def _overruns_workspace(images: Tensor, weight: Tensor, padding: Sequence[int], groups: int) -> bool:
    """Return whether oneDNN would write past its workspace for this convolution, as `StridedProjection` describes."""
    is_pointwise = set(weight.shape[2:]) == {1} and not any(padding) and groups == 1
    channels, side = images.shape[1], images.shape[-1]
    return is_pointwise and channels < ONEDNN_BLOCK and (channels < 8 or side > MAX_STRIDED_SIDE)


def _compute_without_stride(func: Any, args: tuple[Any, ...]) -> list[Tensor | None]:
    """Compute the gradients of a strided 1 x 1 convolution from the positions that it reads."""
    gradient, images, weight, biases, stride, *rest = args
    positions: Any = (..., *(slice(None, None, step) for step in stride))
    image_gradient, *weight_gradients = func(gradient, images[positions], weight, biases, [1] * len(stride), *rest)
    if image_gradient is not None:
        whole_gradient = torch.zeros_like(images)
        whole_gradient[positions] = image_gradient
        image_gradient = whole_gradient
    return [image_gradient, *weight_gradients]
