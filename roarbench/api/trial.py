"""Whether a function from Python works, before hours of work: its file is run here, on two images of noise."""

from types import ModuleType

import torch

from roarbench.errors import CallerError
from roarbench.models.build import build
from roarbench.plan.suite import Suite
from roarbench.sandbox.conventions import NoEstimate, estimate_of
from roarbench.submissions.file import Submission


def try_file(made: Submission, plan: Suite) -> None:
    """Run the file of a function once, with a network of the suite with random weights; CallerError for odd maps."""
    module = ModuleType(made.name)
    exec(compile(made.source, f"<{made.name}>", "exec"), module.__dict__)
    record, generator = plan.dataset_record, torch.Generator().manual_seed(0)
    model = build(plan.model, record.classes, record.channels, record.size, generator, plan.network_source).eval()
    images, targets = torch.randn(2, *record.shape, generator=generator), torch.tensor([0, 1])
    try:
        found = estimate_of(module)(model, images, targets, generator)
    except NoEstimate as error:
        raise CallerError(str(error)) from None
    if not isinstance(found, torch.Tensor):
        raise CallerError(f"{made.name} returned {type(found).__name__}, expected a torch.Tensor or a NumPy array")
    n, c, h, w = images.shape
    if tuple(found.shape) not in ((n, c, h, w), (n, 1, h, w), (n, h, w)):
        wanted = f"{(n, c, h, w)}, {(n, 1, h, w)} or {(n, h, w)}"
        raise CallerError(f"the maps of {made.name} have shape {tuple(found.shape)}, expected {wanted}")
