"""Submissions in a results store."""

from types import SimpleNamespace

import pytest

from roarbench.common.errors import StoreError
from roarbench.store.submissions import read_submissions_by_id, read_submissions_of_estimators, store_submission
from roarbench.submissions.parsed_file import parse_submission

ENTRY = parse_submission(b'NAME = "mine"\nDESCRIPTION = "x"\n')
OTHER = parse_submission(b'NAME = "other"\nDESCRIPTION = "x"\n')
TRUSTED = f"{ENTRY.id}~trusted"


def test_store_submission_keeps_one_file_per_id(store):
    for each in (ENTRY, OTHER, ENTRY):
        store_submission(store.database, each)
    twin = SimpleNamespace(file_id=ENTRY.id, sha256=ENTRY.sha256[:8] + "0" * 56, source=b"x")
    with pytest.raises(StoreError, match=f"a different file is stored as {ENTRY.id}"):
        store_submission(store.database, twin)
    assert read_submissions_by_id(store.database) == {ENTRY.id: ENTRY, OTHER.id: OTHER}
    assert read_submissions_by_id(store.database, [OTHER.id, "no@0123abcd"]) == {OTHER.id: OTHER}
    names = ("grad", TRUSTED, OTHER.id, "no@0123abcd")
    found = read_submissions_of_estimators(store.database, names)
    assert found == {TRUSTED: ENTRY, OTHER.id: OTHER}
