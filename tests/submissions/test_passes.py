"""The passes that a submission needs are counted where it calls the network, and are unknown if they cannot be."""

import pytest

from roarbench.submissions import run_in_sandbox
from roarbench.submissions.limits_and_faults import CHECK_LIMITS, SubmissionFault
from roarbench.submissions.run_in_sandbox import run_submission
from tests.helpers.processes import ROOT
from tests.helpers.sandboxed import GRADIENT, make_task

N = 6
DRAWS = """
import torch
NAME, DESCRIPTION = "noisy", "gradients of three noisy copies"
def estimate(model, images, targets, generator):
    total = torch.zeros_like(images)
    for _ in range(3):
        noisy = (images + torch.randn(images.shape[1:], generator=generator)).requires_grad_()
        total += torch.autograd.grad(model(noisy).gather(1, targets[:, None]).sum(), noisy)[0]
    return total
"""
COPIES = """
import copy, torch
NAME, DESCRIPTION = "copies", "layers of a copy, without calling the network itself"
def estimate(model, images, targets, generator):
    images = images.clone().requires_grad_()
    logits = copy.deepcopy(model).forward(images)
    return torch.autograd.grad(logits.gather(1, targets[:, None]).sum(), images)[0]
"""
PROCESSES = (
    """
import os
"""
    + GRADIENT.replace("def estimate(", "def hidden(")
    + """
def estimate(model, images, targets, generator):
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)
    return hidden(model, images, targets, generator)
"""
)
PROGRAM = (
    """
import contextlib, subprocess
with contextlib.suppress(OSError):
    subprocess.run(["fc-list"])  # as matplotlib does, which captum imports
"""
    + GRADIENT
)
IGNORES = """
NAME, DESCRIPTION = "ignores", "the image itself"
def estimate(model, images, targets, generator):
    return images.clone()
"""


@pytest.mark.process
@pytest.mark.usefixtures("bubblewrap", "one_sandbox")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (GRADIENT, (N, N)),
        (DRAWS, (3 * N, 3 * N)),
        (COPIES, (N, N)),
        (IGNORES, (0, 0)),
        (PROGRAM, (N, N)),
        (PROCESSES, None),
    ],
    ids=["gradient", "draws", "copies", "ignores", "program", "processes"],
)
def test_passes_of_submission_are_counted(source, expected):
    """The batch whose maps are computed again, because the submission draws random numbers, does not count."""
    answer = run_submission(make_task(source, n=N), CHECK_LIMITS)
    assert answer.refusal is None
    assert answer.passes == ((expected,) if expected else ())


@pytest.mark.process
@pytest.mark.usefixtures("bubblewrap", "one_sandbox")
def test_passes_of_published_example_are_its_patches():
    source = (ROOT / "submissions" / "occlusion.py").read_text()
    ((forward, backward),) = run_submission(make_task(source, n=2), CHECK_LIMITS).passes
    assert backward == 0 and forward > 2 * 10 and forward == int(forward)


@pytest.mark.parametrize(
    "reported",
    [
        None,
        "2",
        [],
        [[1.0, 2.0], [1.0, 2.0]],
        [[1.0]],
        [[-1.0, 1.0]],
        [[float("nan"), 1]],
        [[True, 1]],
        [["1", 1]],
        [None],
    ],
)
def test_malformed_report_of_passes_is_unknown(reported):
    assert run_in_sandbox._read_passes(reported, 1) == ()
    assert run_in_sandbox._read_passes([[3, 1.5]], 1) == ((3.0, 1.5),)


def test_malformed_report_of_time_or_memory_is_a_fault_and_not_zero(monkeypatch):
    """The sandbox program always reports both, so another report is the submission's doing."""
    make_answer, given = run_in_sandbox._make_answer, []
    monkeypatch.setattr(run_in_sandbox, "_make_answer", lambda *values: given.append(values) or make_answer(*values))
    answer = run_submission(make_task('NAME = DESCRIPTION = "plain"\n' + GRADIENT), CHECK_LIMITS, trust=True)
    assert answer.refusal is None and answer.seconds > 0 and len(answer.peaks) == 1 and answer.peaks[0] > 1e6
    ((task, limits, ended, header, numbers),) = given
    malformed = [{"seconds": value} for value in (None, "1", float("nan"), -1, True)]
    malformed += [{"peaks": value} for value in (None, [], [None], [True], [1.0, 2.0], "1")]
    for changed in malformed:
        answer = make_answer(task, limits, ended, header | changed, numbers)
        assert answer.refusal is not None and answer.refusal.kind is SubmissionFault.ANSWER, changed
        assert (answer.maps, answer.seconds, answer.peaks) == ((), None, ())
