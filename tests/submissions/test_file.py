"""What is known of a file without running it, and what validation says of good ones."""

from pathlib import Path

import pytest
import torch

from roarbench.errors import CallerError
from roarbench.sandbox.faults import SubmissionFault
from roarbench.submissions.checks import _compare, _warnings, picture
from roarbench.submissions.file import TEMPLATE, Refusal, check_source, read_submission, write_template

FILE = b'NAME: str = "mine"\nDESCRIPTION = "a " "b"\nAUTHORS = "A.\\n B."\nraise SystemExit\n'


def test_a_file_is_read_and_not_run():
    found = check_source(FILE)
    assert (found.name, found.description, found.authors, found.paper) == ("mine", "a b", "A. B.", "")
    assert found.id == "mine@df84cd19"  # sha256sum of the file
    assert found.source == FILE


def test_the_last_value_of_a_name_counts():
    for last, line in (
        ("NAME = 'x y'", "NAME is 'x y'"),
        ("NAME = None", "NAME is missing or no plain string"),
        ("NAME = 'none'", "NAME 'none' is a built-in"),
        ("DESCRIPTION = '  '", "DESCRIPTION is 2 characters"),
        ("PAPER = 3", "PAPER is no plain string"),
    ):
        with pytest.raises(Refusal, match=f"^{line}") as caught:
            check_source(FILE + last.encode())
        assert caught.value.fault.kind is SubmissionFault.NAMES


def test_the_template_is_a_submission_of_any_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_template("my-own-1")
    assert path == Path("my_own_1.py")
    assert read_submission(path).name == "my-own-1"
    changed = [line for line in path.read_text().splitlines() if line not in TEMPLATE.read_text().splitlines()]
    assert len(changed) == 1
    with pytest.raises(CallerError, match="is there already"):
        write_template("my-own-1")
    for name in ("../up", "Upper", "", 'a"; import os #'):
        with pytest.raises(Refusal):
            write_template(name)
    assert [path.name for path in tmp_path.iterdir()] == ["my_own_1.py"]


def test_maps_are_compared_by_bytes_between_sandboxes_and_up_to_rounding_between_batches():
    once = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    turned = once.flip(0)
    _compare(once, once.clone(), once.clone(), turned)
    _compare(once, once.clone(), once * 1.001, turned * 1.001)
    with pytest.raises(Refusal, match="two fresh runs"):
        _compare(once, once + 1e-6, once, turned)
    for twice, other_way in ((once, turned * 1.05), (once * 1.05, turned), (once, once)):
        with pytest.raises(Refusal, match="depends on its batch"):
            _compare(once, once.clone(), twice, other_way)


def test_maps_that_explain_nothing_are_told():
    first = torch.randn(6, 8, 8, generator=torch.Generator().manual_seed(0))
    other = torch.randn(6, 8, 8, generator=torch.Generator().manual_seed(1))
    assert _warnings(first, other, other) == []
    assert "network" in _warnings(first, other, first)[0]
    assert "class" in _warnings(first, first, other)[0]
    assert "same everywhere" in _warnings(first * 0, other, other)[0]


def test_a_picture_is_dark_where_a_map_is_high():
    importance = torch.zeros(64, 64)
    importance[:16, 32:] = 1
    lines = picture(importance, columns=16).split("\n")
    assert lines == [" " * 8 + "█" * 8] * 2 + [" " * 16] * 6
