"""Fixtures: one sandbox shared by many submissions, for tests that do not concern isolation."""

from functools import partial

import pytest

from roarbench.submissions import run_in_sandbox
from roarbench.submissions.sandbox_isolation import make_sandbox_command, open_filter
from tests.helpers.sandboxed import serve_submissions


@pytest.fixture(scope="package")
def run_in_one_sandbox(require):
    require("bwrap", "apt-get install bubblewrap")
    with (
        open_filter() as rules,
        serve_submissions(partial(make_sandbox_command, filter_descriptor=rules), rules) as run,
    ):
        yield run


@pytest.fixture
def one_sandbox(run_in_one_sandbox, monkeypatch):
    """Run untrusted submissions in the shared sandbox."""
    run = run_in_sandbox._run_and_close_pipe

    def run_program(*given):
        return run(*given) if given[-1] else run_in_one_sandbox(*given)

    monkeypatch.setattr(run_in_sandbox, "_run_and_close_pipe", run_program)
