"""Check submitted files and add them to a store."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from roarbench.common.errors import CallerError
from roarbench.estimators.ids import CUDA, TRUSTED, EstimatorId
from roarbench.execution.progress import StageDisplay
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import SUITES
from roarbench.store.annotations_and_scores import replace_validation_findings
from roarbench.store.results import ResultsStore
from roarbench.store.user_files import store_submission
from roarbench.store.workspace import Workspace
from roarbench.submissions.limits_and_faults import Refusal
from roarbench.submissions.submission_file import Submission, read_submission
from roarbench.submissions.submission_validation import DEFAULT_SUITE, STAGES, AcceptedSubmission, validate_submission


class SubmissionMode(NamedTuple):
    """Settings with which a submission is run."""

    trust: bool  # run without sandbox, for checks and for the suite; the id has a permanent mark
    cuda: bool  # make maps on a GPU; the id has a permanent mark
    suite: SuiteSpec = SUITES[DEFAULT_SUITE]  # suite to which the submission is added
    limit: int | None = None  # images per split; None for all


def check_and_store_submissions(
    submissions: Sequence[Submission], mode: SubmissionMode, store: ResultsStore, workspace: Workspace, console: Console
) -> list[str]:
    """Check submissions, store them, and return their ids.

    No submission is stored if one is rejected, or if a needed sandbox or GPU is missing.
    """
    if mode.cuda and not torch.cuda.is_available():
        seen = "PyTorch finds no GPU on this machine"
        raise CallerError(f"{seen}; leave --submission-device out, or install PyTorch for CUDA")
    accepted = []
    for submission in () if mode.trust else submissions:
        # check stored submissions, too, because imported and trusted submissions may be stored without a check
        accepted.append(check_submission(submission, console, mode.suite, mode.limit))
        console.print(accepted[-1].format_report(), soft_wrap=True)
    for submission in submissions:
        store_submission(store.database, submission)
        workspace.save_submission(submission.id_without_parameters, submission.source)
    for checked in accepted:
        replace_validation_findings(store.database, checked.submission.id, checked.warnings)
    return list(map_ids_to_code(submissions, mode))


def check_submission(
    submission: Submission, console: Console, suite: SuiteSpec = SUITES[DEFAULT_SUITE], limit: int | None = None
) -> AcceptedSubmission:
    """Validate a submission, and show the stages to the user; a refusal names the submission."""
    try:
        with StageDisplay(console, STAGES) as stages:
            return validate_submission(submission, suite, stages.begin_stage, limit)
    except Refusal as refusal:
        raise refusal.add_subject(submission.name) from None


def read_submissions(paths: Sequence[Path]) -> list[Submission]:
    """Read submissions, dropping duplicates; raise Refusal if a file cannot be a submission."""
    return list(dict.fromkeys(map(read_submission, paths)))


def map_ids_to_code(submissions: Sequence[Submission], mode: SubmissionMode) -> dict[str, bytes]:
    """Return the code of each submission by the id of its row, whose marks say how it is run."""
    marks = (TRUSTED,) * mode.trust + (CUDA,) * mode.cuda
    return {str(replace(EstimatorId.parse(entry.id), marks=marks)): entry.code for entry in submissions}
