"""Submission files: values read without execution, parameters, refusals and warnings of validation."""

import errno
from pathlib import Path

import pytest
import torch

from roarbench.common.errors import CallerError, StoreError
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.ids import EstimatorId
from roarbench.submissions.entry_points import _CONVENTIONS
from roarbench.submissions.limits_and_faults import Refusal, SubmissionFault
from roarbench.submissions.parameters import ENTRY_POINTS
from roarbench.submissions.submission_file import TEMPLATE, parse_submission, read_submission, write_template
from roarbench.submissions.submission_validation import (
    _find_warnings,
    draw_text_picture,
    refuse_unrepeatable_or_batch_dependent_maps,
)

FILE = b'NAME: str = "mine"\nDESCRIPTION = "a " "b"\nAUTHORS = "A.\\n B."\nraise SystemExit\n'
HEAD = 'NAME = "mine"\nDESCRIPTION = "ä"\n'
KINDS = HEAD + (
    'class Mine:\n    """Words."""\n    samples: int = 8; noise = -.25\n    blur = "ßoft"; signed = False\n'
    '    _own = 3; many = (1, 2); nothing = None; made = 2 * 3; size = samples; bytes = b"x"\n'
    "    def __call__(self, model, images, targets, generator): return images * self.noise\n"
    "estimate = Mine()\n"
)


def test_parse_submission_reads_last_values_without_execution():
    found = parse_submission(FILE)
    assert (found.name, found.description, found.authors, found.paper) == ("mine", "a b", "A. B.", "")
    assert found.id == "mine@df84cd19"  # sha256sum of the file
    assert found.source == FILE


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (b"", "NAME is missing or not a plain string"),
        (b'NAME = "a"', "DESCRIPTION is missing, expected 1-300 characters; write DESCRIPTION = "),
        (b'NAME = "a"\nDESCRIPTION = ""', "DESCRIPTION is 0 characters, expected 1-300"),
        (FILE + b"NAME = 'x y'", "NAME is 'x y', expected 1-40 characters of a-z, 0-9 and"),
        (FILE + b"NAME = '" + b"a" * 41 + b"'", "NAME is 'aaaaaaa"),
        (FILE + rb"NAME = '\x1b[2Jcleared\u202e'", r"NAME is '\\x1b\[2Jcleared"),
        (FILE + b"NAME = None", "NAME is missing or not a plain string"),
        (FILE + b"NAME = 'none'", "NAME 'none' is a built-in"),
        (FILE + b"NAME = 'sg-grad'", "NAME 'sg-grad' is a built-in"),
        (FILE + b"DESCRIPTION = '  '", "DESCRIPTION is 2 characters"),
        (FILE + b"PAPER = 3", "PAPER is not a plain string"),
        (FILE + b"CLAIM = '" + b"c" * 501 + b"'", "CLAIM is 501 characters, expected 1-500"),
        (FILE + b"def estimate(model images):", "line 5 is not valid Python"),
        (FILE + b"x = " + b"(" * 5000 + b")" * 5000, "line 5 is not valid Python: too many nested parentheses"),
    ],
)
def test_parse_submission_rejects_invalid_file_in_one_line(code, line):
    with pytest.raises(Refusal, match=f"^{line}") as caught:
        parse_submission(code)
    assert caught.value.fault.kind in (SubmissionFault.NAMES, SubmissionFault.SYNTAX)
    assert str(caught.value).isprintable()


def test_read_submission_refusal_names_file(tmp_path):
    path = tmp_path / "second.py"
    path.write_text("NAME = 'x y'")
    for words in (path, f"{path}(samples=50)"):
        with pytest.raises(Refusal, match=r"^second\.py: NAME is 'x y'") as caught:
            read_submission(Path(words))
        assert caught.value.fault.kind is SubmissionFault.NAMES
    path.write_bytes(bytes(300 * 1024))
    with pytest.raises(Refusal, match=r"^second\.py has 300 KiB, expected at most 256 KiB; remove embedded data$"):
        read_submission(path)


def test_read_submission_refuses_array_file_without_reading_it(tmp_path):
    path = tmp_path / "mine.npy"
    path.write_bytes(bytes(300 * 1024))
    line = r"^mine\.npy is not a Python file, expected FILE\.py; rb\.check and rb\.evaluate judge maps in arrays$"
    with pytest.raises(Refusal, match=line) as caught:
        read_submission(path)
    assert caught.value.fault.kind is SubmissionFault.UNREADABLE


def test_write_template_creates_valid_submission_for_any_name(working_folder):
    path = write_template("my-own-1")
    assert path == Path("my_own_1.py")
    assert read_submission(path).name == "my-own-1"
    changed = [line for line in path.read_text().splitlines() if line not in TEMPLATE.read_text().splitlines()]
    assert len(changed) == 1
    for name in ("../up", 'a"; import os #'):
        with pytest.raises(Refusal):
            write_template(name)
    assert [path.name for path in working_folder.iterdir()] == ["my_own_1.py"]


def test_write_template_leaves_no_partial_file_on_full_disk(working_folder, monkeypatch):
    def write_part(path, text, encoding):
        path.write_bytes(text[:9].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_part)
    with pytest.raises(StoreError, match="cannot write mine.py: No space left on device; free disk space or write to"):
        write_template("mine")
    assert list(working_folder.iterdir()) == []


def test_parameters_are_plain_attributes_of_estimator_class():
    expected = {"samples": 8, "noise": -0.25, "blur": "ßoft", "signed": False}
    assert parse_submission(KINDS.encode()).parameters == expected
    assert tuple(_CONVENTIONS) == ENTRY_POINTS
    classes = "class C:\n    a = 0\n    a = 1\nclass D:\n    b = 2\n"
    found = {
        "estimate = C": {"a": 1},
        "estimate: object = C(3).explain": {"a": 1},
        "estimator = lambda model: C(model)": {"a": 1},
        "explain_func = C()": {"a": 1},
        "estimate = C()\nestimate = D()": {"b": 2},
        "class estimator:\n    c = 3": {"c": 3},
        "estimator = captum.attr.Saliency": {},
        "import C as estimate": {},
        "estimate, other = C(), D()": {},
        "estimate = made_by(C)": {},
    }
    assert {made: parse_submission(f"{HEAD}{classes}{made}".encode()).parameters for made in found} == found


def test_replace_parameters_changes_only_default_values_and_rejects_bad_values():
    """The executed code is the file with other values and no other change."""
    for start, end in (("", "\n"), ("\ufeff", "\r\n"), ("", "\r")):
        file = (start + KINDS.replace("\n", end)).encode()
        tuned = parse_submission(file).replace_parameters("signed=true,samples=050,noise=1,blur=a.b")
        by_hand = KINDS.replace("= 8", "= 50").replace("-.25", "1.0").replace('"ßoft"', "'a.b'")
        assert tuned.code == by_hand.replace("False", "True").replace("\n", end).encode()
        assert tuned.id == f"{parse_submission(file).id}(samples=50,noise=1,blur=a.b,signed=True)"
        assert (tuned.source, tuned.id_without_parameters) == (file, parse_submission(file).id)
    usual, exact = (parse_submission(KINDS.replace("-.25", noise).encode()) for noise in ("-.25", "0.123456789"))
    for listed in ("", "samples=8", " noise = -0.250 ,signed=false"):
        assert usual.replace_parameters(listed) == usual  # the defaults, written out
    assert exact.replace_parameters("noise=0.123456789").id == exact.id
    assert exact.replace_parameters("noise=0.12345678").id == f"{exact.id}(noise=0.123457)"
    for listed, line in (
        ("sample=8", "'mine' has no parameter 'sample'; it has: samples, noise, blur, signed"),
        ("samples=8.5", "samples of 'mine' is '8.5', expected a whole number"),
        ("samples=٥", "samples of 'mine' is '٥', expected a whole number"),
        ("noise=nan", "noise of 'mine' is 'nan', expected a number from -1e"),
        ("noise=1_0", "noise of 'mine' is '1_0', expected a number"),
        ("signed=1", "signed of 'mine' is '1', expected True or False"),
        ("blur=" + "x" * 101, "blur of 'mine' is 'xxx"),
        ("blur=a~trusted", "blur of 'mine' is 'a~trusted', expected"),
        ("samples", r"cannot read the parameters of 'mine\(samples\)'; write each once"),
        ("samples=8,samples=9", "cannot read the parameters"),
    ):
        with pytest.raises(CallerError, match=f"^{line}") as caught:
            usual.replace_parameters(listed)
        assert "\n" not in str(caught.value)


def test_parameters_follow_file_name_and_precede_marks_in_estimator_id(tmp_path):
    odd = tmp_path / "mine(1).py"
    odd.write_text(KINDS)
    assert read_submission(odd).values == ()
    assert read_submission(Path(f"{odd}(samples=9)")).values == (("samples", 9),)
    with pytest.raises(CallerError, match="no parameter between its parentheses"):
        read_submission(Path(f"{odd}()"))
    name = "mine@0123abcd(samples=50,noise=1e-05,blur=a.b)~trusted~cuda~blurred"
    found, asked = find_estimator(name), EstimatorId.parse(name)
    assert (found.id, found.twin, found.submitted) == (name, "blurred", True)
    assert found.parsed_id.marks == ("trusted", "cuda")
    assert (asked.id_without_parameters, asked.listed) == ("mine@0123abcd", "samples=50,noise=1e-05,blur=a.b")
    untwinned, trusted = map(find_estimator, (found.id_without_last_twin, "mine@0123abcd~trusted~cuda"))
    assert untwinned.fingerprint != trusted.fingerprint
    for wrong in ("mine@0123abcd()", "mine@0123abcd(a)", "mine@0123abcd(a=)", "mine@0123abcd~trusted(a=1)", "m@0(a=1)"):
        with pytest.raises(CallerError, match="no estimator"):
            find_estimator(wrong)


def draw_map(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_refuse_unrepeatable_maps_tolerates_rounding_between_batches_only():
    once = draw_map(6, 3, 8, 8)
    turned = once.flip(0)
    refuse_unrepeatable_or_batch_dependent_maps(once, once.clone(), once.clone(), turned)
    refuse_unrepeatable_or_batch_dependent_maps(once, once.clone(), once * 1.001, turned * 1.001)
    with pytest.raises(Refusal, match="two fresh runs"):
        refuse_unrepeatable_or_batch_dependent_maps(once, once + 1e-6, once, turned)
    for twice, other_way in ((once, turned * 1.05), (once * 1.05, turned), (once, once)):
        with pytest.raises(Refusal, match="depends on its batch"):
            refuse_unrepeatable_or_batch_dependent_maps(once, once.clone(), twice, other_way)


def test_validation_warns_about_uninformative_maps_and_draws_text_picture():
    first, other = (draw_map(6, 8, 8, seed=seed) for seed in (0, 1))
    assert _find_warnings(first, other, other) == []
    assert "network" in _find_warnings(first, other, first)[0]
    assert "class" in _find_warnings(first, first, other)[0]
    assert "same everywhere" in _find_warnings(first * 0, other, other)[0]
    importance = torch.zeros(64, 64)
    importance[:16, 32:] = 1
    assert draw_text_picture(importance, columns=16).split("\n") == [" " * 8 + "█" * 8] * 2 + [" " * 16] * 6
