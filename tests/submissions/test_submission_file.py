"""Submission files: values read without execution, parameters, refusals and warnings of validation."""

import os
from pathlib import Path

import pytest
import torch

from roarbench.common.errors import CallerError
from roarbench.submissions.limits_and_faults import Refusal, SubmissionFault
from roarbench.submissions.submission_calls import _CONVENTIONS
from roarbench.submissions.submission_file import (
    ENTRY_POINTS,
    TEMPLATE,
    parse_submission,
    read_submission,
    write_template,
)
from roarbench.submissions.submission_validation import (
    _find_warnings,
    change_corners,
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
        (b'NAME = "a"', "DESCRIPTION is 0 characters, expected 1-300 characters; write DESCRIPTION = "),
        (FILE + b"PAPER = 3", "PAPER is not a plain string"),
        (FILE + b"NAME = 'x y'", "NAME is 'x y', expected 1-40 characters of a-z, 0-9 and"),
        (FILE + rb"NAME = '\x1b[2Jcleared\u202e'", r"NAME is '\\x1b\[2Jcleared"),
        (FILE + b"NAME = None", "NAME is missing or not a plain string"),
        (FILE + b"NAME = 'sg-grad'", "NAME 'sg-grad' is a built-in"),
        (FILE + b"CLAIM = '" + b"c" * 501 + b"'", "CLAIM is 501 characters, expected 1-500"),
        (FILE + b"def estimate(model images):", "line 5 is not valid Python"),
        (FILE + b"x = " + b"(" * 5000 + b")" * 5000, "line 5 is not valid Python: too many nested parentheses"),
    ],
)
def test_parse_submission_rejects_invalid_file_in_one_line(code, line):
    with pytest.raises(Refusal, match=f"^{line}") as caught:
        parse_submission(code)
    assert caught.value.kind in (SubmissionFault.NAMES, SubmissionFault.SYNTAX)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("latin.py", b'NAME = "\xe9"\n', "encoding"),
        ("null.py", b'NAME = "a"\0\n', "syntax"),
        ("large.py", b"#" * (256 * 1024 + 1), "too-large"),
        ("unnamed.py(samples=50)", b"NAME = 'x y'", "names"),
        ("maps.npy", b"", "unreadable"),
        ("pipe.py", None, "unreadable"),
        ("", None, "unreadable"),
        ("missing/file.py", None, "unreadable"),
    ],
)
def test_read_submission_refusal_names_unusable_file(tmp_path, name, content, kind):
    path = tmp_path / name.partition("(")[0]
    if content is not None:
        path.write_bytes(content)
    elif name == "pipe.py":
        os.mkfifo(path)
    with pytest.raises(Refusal, match=path.name) as caught:
        read_submission(tmp_path / name)
    assert caught.value.kind == kind


def test_write_template_creates_valid_submission_for_any_name(working_folder):
    path = write_template("my-own-1")
    assert path == Path("my_own_1.py")
    assert read_submission(path).name == "my-own-1"
    changed = [line for line in path.read_text().splitlines() if line not in TEMPLATE.read_text().splitlines()]
    assert len(changed) == 1
    for name in ("../up", 'a"; import os #'):
        with pytest.raises(CallerError, match="write roarbench new-submission my-estimator"):
            write_template(name)
    assert [path.name for path in working_folder.iterdir()] == ["my_own_1.py"]


def test_parameters_are_plain_attributes_of_estimator_class():
    expected = {"samples": 8, "noise": -0.25, "blur": "ßoft", "signed": False}
    assert parse_submission(KINDS.encode()).parameters == expected
    assert tuple(_CONVENTIONS) == ENTRY_POINTS
    classes = "class C:\n    a = 0\n    a = 1\nclass D:\n    b = 2\n"
    found = {
        "estimate = C": {"a": 1},
        "estimate: object = C(3).explain": {"a": 1},
        "estimator = lambda model: C(model)": {"a": 1},
        "estimate = C()\nestimate = D()": {"b": 2},
        "class estimator:\n    c = 3": {"c": 3},
        # attributes that the class sets without effect
        "estimate = C()\nestimate.a = 3": {},
        "class E:\n    e = 4\n    f = 5\n    def __init__(self):\n        self.e = 6\nestimate = E()": {"f": 5},
        "@dataclass\nclass F:\n    a: int\n    e: int = 4\n    f: int = 5\n    g: int = 6\nestimate = F(7, 8, g=9)": {
            "f": 5
        },
        "estimator = captum.attr.Saliency": {},
        "estimate, other = C(), D()": {},
        "estimate = made_by(C)": {},
    }
    assert {made: parse_submission(f"{HEAD}{classes}{made}".encode()).parameters for made in found} == found


@pytest.mark.parametrize(("start", "end"), [("", "\n"), ("\ufeff", "\r\n"), ("", "\r")])
def test_replace_parameters_changes_only_default_values(start, end):
    """The executed code is the file with other values and no other change."""
    file = (start + KINDS.replace("\n", end)).encode()
    usual = parse_submission(file)
    tuned = usual.replace_parameters("signed=true,samples=050,noise=1,blur=a.b")
    by_hand = KINDS.replace("= 8", "= 50").replace("-.25", "1.0").replace('"ßoft"', "'a.b'")
    assert tuned.code == by_hand.replace("False", "True").replace("\n", end).encode()
    assert tuned.id == f"{usual.id}(samples=50,noise=1,blur=a.b,signed=True)"
    assert usual.replace_parameters(" noise = -0.250 ,signed=false") == usual  # the defaults, written out
    assert usual.replace_parameters("noise=0.12345678").id == f"{usual.id}(noise=0.123457)"


@pytest.mark.parametrize(
    ("listed", "line"),
    [
        ("sample=8", "'mine' has no parameter 'sample'; it has: samples, noise, blur, signed"),
        ("samples=٥", "samples of 'mine' is '٥', expected a whole number"),
        ("noise=nan", "noise of 'mine' is 'nan', expected a number from -1e"),
        ("signed=1", "signed of 'mine' is '1', expected True or False"),
        ("blur=a~trusted", "blur of 'mine' is 'a~trusted', expected"),
        ("samples=8,samples=9", "cannot read the parameters"),
    ],
)
def test_replace_parameters_rejects_invalid_values(listed, line):
    with pytest.raises(CallerError, match=f"^{line}"):
        parse_submission(KINDS.encode()).replace_parameters(listed)


def test_parameters_follow_file_name(tmp_path):
    odd = tmp_path / "mine(1).py"
    odd.write_text(KINDS)
    assert read_submission(odd).values == ()
    assert read_submission(Path(f"{odd}(samples=9)")).values == (("samples", 9),)
    with pytest.raises(CallerError, match="no parameter between its parentheses"):
        read_submission(Path(f"{odd}()"))


def draw_map(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_refuse_unrepeatable_maps_tolerates_rounding_between_batches_only():
    once = draw_map(6, 3, 8, 8)
    refuse_unrepeatable_or_batch_dependent_maps(once, once.clone(), once * 1.001, once * 1.001)
    with pytest.raises(Refusal, match="two fresh runs"):
        refuse_unrepeatable_or_batch_dependent_maps(once, once + 1e-6, once)
    for others in ((once, once * 1.05), (once * 1.05, once), (once.flip(0),)):
        with pytest.raises(Refusal, match="depends on its batch"):
            refuse_unrepeatable_or_batch_dependent_maps(once, once.clone(), *others)


SAME = [draw_map(2, 8, 8), draw_map(2, 8, 8)]  # maps of the first images with other corners


def test_large_mean_of_a_map_hides_no_difference():
    """Maps of 100 plus or minus 1 differ by 1 % of their norm, and rank all features otherwise."""
    first, other = (100 + draw_map(6, 8, 8, seed=seed) for seed in (0, 1))
    assert _find_warnings(first, other, other, SAME) == []
    assert "network" in _find_warnings(first, other, (first / 3) * 3, SAME)[0], "equal but for rounding"
    with pytest.raises(Refusal, match="depends on its batch"):
        refuse_unrepeatable_or_batch_dependent_maps(first, first.clone(), other)


def test_validation_warns_about_uninformative_maps():
    first, other = (draw_map(6, 8, 8, seed=seed) for seed in (0, 1))
    assert _find_warnings(first, other, other, SAME) == []
    assert "network" in _find_warnings(first, other, first, SAME)[0]
    assert "class" in _find_warnings(first, first, other, SAME)[0]
    assert "same everywhere" in _find_warnings(first * 0, other, other, SAME)[0]
    cornered = change_corners(first[:, None])
    assert _find_warnings(first[:, None], other, other, [changed[:2] for changed in cornered]) == []
    for turn in (
        lambda maps: maps.mT,
        lambda maps: maps.flip(2),
        lambda maps: maps.flip(3),
        lambda maps: maps.rot90(1, (2, 3)),
    ):
        turned = _find_warnings(turn(first[:, None]), other, other, [turn(changed[:2]) for changed in cornered])
        assert "it seems to be transposed, mirrored or rotated" in turned[0].description
    large = draw_map(6, 40, 40, seed=0)
    cast = (large / large.abs().max() * 255).to(torch.int32).to(torch.uint8).float()  # negative values wrap
    assert _find_warnings(cast, large, large, [cast[:2]] * 2)[0].description.startswith("the maps have at most 256 ")
