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


class How(NamedTuple):
    """How a submission is run.

    Attributes:
        trust: Without the sandbox, now and in the suite; its id says so for ever.
        cuda: With its maps made on a GPU; its id says so for ever.
    """

    trust: bool
    cuda: bool


class HandedIn(NamedTuple):
    """What `hand_in` says of a submission."""

    id: str
    pace: Pace | None


def hand_in(path: Path, how: How, store: ResultsStore, workspace: Workspace, console: Console) -> HandedIn:
    """Check a file and keep it.

    Args:
        path: The submission.
        how: It is run.
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
    if how.cuda and not torch.cuda.is_available():
        raise CallerError("PyTorch sees no GPU here; leave out --submission-device, or install PyTorch for CUDA")
    if not how.trust:
        accepted = checked(submission, console)  # a kept one, too: imported or trusted, it never was
        console.print(accepted.text(), soft_wrap=True)
        pace = None if how.cuda else accepted.pace  # it was measured on a processor
    keep_entry(store.database, submission)
    workspace.keep_submission(submission.id, submission.source)
    return HandedIn(_id(submission, how), pace)


def checked(submission: Submission, console: Console) -> Accepted:
    """Validate a submission, with words for the one who waits.

    Raises:
        Refusal, SandboxError: As `hand_in`.
    """
    with Stages(console, STAGES) as stages:
        return validate(submission, stages.begin)


def look_at(path: Path, how: How, measured: bool, console: Console) -> HandedIn:
    """Check a file without keeping anything; it is run only to be measured.

    Raises:
        Refusal, SandboxError: As `hand_in`.
    """
    submission = read_submission(path)
    pace = checked(submission, console).pace if measured and not (how.trust or how.cuda) else None
    return HandedIn(_id(submission, how), pace)


def _id(submission: Submission, how: How) -> str:
    """Return the id of a submission that is run like this."""
    marks = [mark for mark, said in ((TRUSTED, how.trust), (CUDA, how.cuda)) if said]
    return "~".join([submission.id, *marks])
