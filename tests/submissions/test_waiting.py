"""A submission that only waits is stopped by one limit for all sandboxes of `validate`."""

from dataclasses import replace

import pytest

from roarbench.submissions import submission_validation
from roarbench.submissions.limits_and_faults import CHECK_LIMITS, MAX_CHECK_WAITING, SubmissionFault
from roarbench.submissions.run_in_sandbox import run_submission
from roarbench.submissions.submission_file import parse_submission
from roarbench.submissions.submission_validation import SubmissionPace
from tests.helpers.sandboxed import GRADIENT, make_task

NAMES = 'NAME = "waits"\nDESCRIPTION = "waits before each map"\n'


@pytest.mark.process
def test_waits_between_work_are_added():
    """Each of three waits is below the limit of 0.5 s, as the limit on one wait (60 s) never notices."""
    waits = "import time\n" + GRADIENT.replace("    inputs =", "    time.sleep(0.4)\n    inputs =")
    answer = run_submission(make_task(waits), replace(CHECK_LIMITS, waiting=0.5), trust=True)
    assert answer.refusal is not None and answer.refusal.kind is SubmissionFault.CLOCK
    assert 0.5 < answer.ended.waited < 1.2


def test_later_sandboxes_of_validate_have_the_remaining_time(monkeypatch):
    given, waited = [], iter((25.0, 10.0, 5.0))

    def run(task, limits):
        given.append(limits.waiting)
        answer = run_parts(task)
        return answer._replace(ended=answer.ended._replace(waited=next(waited)))

    def run_parts(task):
        return run_submission(task, CHECK_LIMITS, trust=True)

    stages = []
    monkeypatch.setattr(submission_validation, "run_submission", run)
    monkeypatch.setattr(submission_validation, "measure_submission_pace", lambda *_: SubmissionPace(0.1, 2.0))
    monkeypatch.setattr(submission_validation, "check_sandbox_isolation", lambda: None)
    submission_validation.validate_submission(parse_submission((NAMES + GRADIENT).encode()), report_stage=stages.append)
    assert given == [MAX_CHECK_WAITING, MAX_CHECK_WAITING - 25]
    assert f"{MAX_CHECK_WAITING} s" in stages[0], "the limit is said before the first wait"
