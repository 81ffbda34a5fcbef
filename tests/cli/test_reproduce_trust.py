"""`reproduce` of a row whose submission ran without the sandbox: refused in one line unless the caller trusts it."""

import pytest

from roarbench.plan.suites import VERSIONS, with_entries
from roarbench.store.results import ResultsStore
from tests.helpers.board_store import make_store
from tests.helpers.command_line import command


@pytest.mark.parametrize("mark", ["~trusted", "~trusted~cuda", "~trusted~blurred"])
def test_a_trusted_row_is_not_run_again_without_being_asked_to(tmp_path, capsys, mark):
    name = f"mine@0123abcd{mark}"
    url = make_store(
        tmp_path, with_entries(VERSIONS["quick", 1], [name]), lambda point: point.cell.estimator == name, 60
    )
    with ResultsStore.open(url, read_only=True) as store:
        key = store.keys("")[0]
    before = capsys.readouterr()
    assert command("reproduce", key, "--store", tmp_path) == 2
    told = capsys.readouterr()
    assert (before.out, told.out) == ("", "")
    assert f"{name} is run without the sandbox, with your rights" in " ".join(told.err.split())
    assert "--trust-submission" in told.err
