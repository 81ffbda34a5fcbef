"""`reproduce` of a row whose submission ran without the sandbox: refused in one line unless the caller trusts it."""

from roarbench.plan.suites import VERSIONS, with_entries
from roarbench.store.results import ResultsStore
from tests.helpers.board_store import make_store


def test_a_trusted_row_is_not_run_again_without_being_asked_to(tmp_path, call):
    name = "mine@0123abcd~trusted~cuda"
    suite = with_entries(VERSIONS["quick", 1], [name])
    url = make_store(tmp_path, suite, lambda point: point.cell.estimator == name, 60)
    with ResultsStore.open(url, read_only=True) as store:
        key = store.keys("")[0]
    told = call("reproduce", key, "--store", tmp_path)
    assert (told.code, told.out) == (2, "")
    assert f"{name} is run without the sandbox, with your rights" in " ".join(told.err.split())
    assert "--trust-submission" in told.err
