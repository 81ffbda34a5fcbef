"""From a submitted file to an entry of a store."""

from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from roarbench.errors import CallerError
from roarbench.estimators import CUDA, TRUSTED
from roarbench.execution.progress import Stages
from roarbench.store.entries import keep_entry
from roarbench.store.folders import Workspace
from roarbench.store.results import ResultsStore
from roarbench.submissions.checks import STAGES, Accepted, Pace, validate
from roarbench.submissions.file import Submission, read_submission


class SubmissionMode(NamedTuple):
    """Way in which a submission is run.

    Attributes:
        trust: Without the sandbox, now and in the suite; its id says so for ever.
        cuda: With its maps made on a GPU; its id says so for ever.
    """

    trust: bool
    cuda: bool


class SubmittedEntry(NamedTuple):
    """A checked submission: the id of its rows, and how fast its maps are made, where that was measured."""

    id: str
    pace: Pace | None


def submit(
    path: Path, mode: SubmissionMode, store: ResultsStore, workspace: Workspace, console: Console
) -> SubmittedEntry:
    """Check a file and keep it.

    Args:
        path: The submission.
        mode: How it is run.
        store: Keeps it for ever.
        workspace: Keeps it where workers find it.
        console: Told of what was found.

    Returns:
        The id that its rows will have, and how fast its maps are made, where that was measured.

    Raises:
        Refusal: It is not accepted.
        SandboxError: No sandbox holds on this machine.
        CallerError: There is no GPU here.
    """
    submission, pace = read_submission(path), None
    if mode.cuda and not torch.cuda.is_available():
        raise CallerError("PyTorch sees no GPU here; leave out --submission-device, or install PyTorch for CUDA")
    if not mode.trust:
        accepted = checked(submission, console)  # a kept one, too: imported or trusted, it never was
        console.print(accepted.text(), soft_wrap=True)
        pace = None if mode.cuda else accepted.pace  # it was measured on a processor
    keep_entry(store.database, submission)
    workspace.keep_submission(submission.file_id, submission.source)
    return SubmittedEntry(_id(submission, mode), pace)


def checked(submission: Submission, console: Console) -> Accepted:
    """Validate a submission, with words for the one who waits.

    Raises:
        Refusal, SandboxError: As `submit`.
    """
    with Stages(console, STAGES) as stages:
        return validate(submission, stages.begin)


def inspect_file(path: Path, mode: SubmissionMode, measured: bool, console: Console) -> SubmittedEntry:
    """Check a file without keeping anything; it is run only to be measured.

    Raises:
        Refusal, SandboxError: As `submit`.
    """
    submission = read_submission(path)
    pace = checked(submission, console).pace if measured and not (mode.trust or mode.cuda) else None
    return SubmittedEntry(_id(submission, mode), pace)


def _id(submission: Submission, mode: SubmissionMode) -> str:
    """Return the id of a submission that is run like this."""
    marks = [mark for mark, marked in ((TRUSTED, mode.trust), (CUDA, mode.cuda)) if marked]
    return "~".join([submission.id, *marks])
