"""Parameters of submissions: which there are, how they are read, and what is run."""

from pathlib import Path

import pytest

from roarbench.errors import CallerError
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.ids import EstimatorId
from roarbench.sandbox.conventions import _CONVENTIONS
from roarbench.submissions.attributes import NAMES
from roarbench.submissions.file import check_source, read_submission

HEAD = 'NAME = "mine"\nDESCRIPTION = "ä"\n'
KINDS = HEAD + (
    'class Mine:\n    """Words."""\n    samples: int = 8; noise = -.25\n    blur = "ßoft"; signed = False\n'
    '    _own = 3; many = (1, 2); nothing = None; made = 2 * 3; size = samples; bytes = b"x"\n'
    "    def __call__(self, model, images, targets, generator): return images * self.noise\n"
    "estimate = Mine()\n"
)


def entry(source=KINDS):
    return check_source(source.encode())


def test_parameters_are_simple_attributes_of_the_estimators_class():
    assert entry().parameters == {"samples": 8, "noise": -0.25, "blur": "ßoft", "signed": False}
    assert tuple(_CONVENTIONS) == NAMES


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("estimate = C", {"a": 1}),
        ("estimate: object = C(3).explain", {"a": 1}),
        ("estimator = lambda model: C(model)", {"a": 1}),
        ("explain_func = C()", {"a": 1}),
        ("estimate = C()\nestimate = D()", {"b": 2}),
        ("class estimator:\n    c = 3", {"c": 3}),
        ("estimator = captum.attr.Saliency", {}),
        ("import C as estimate", {}),
        ("estimate, other = C(), D()", {}),
        ("estimate = made_by(C)", {}),
    ],
)
def test_the_class_is_the_one_that_the_estimator_is_or_is_made_of(made, found):
    classes = "class C:\n    a = 0\n    a = 1\nclass D:\n    b = 2\n"
    assert entry(HEAD + classes + made).parameters == found


def test_values_stand_where_the_file_has_the_defaults():
    """By hand: the same file with other values is what is run, and nothing else of it changes."""
    for start, end in (("", "\n"), ("\ufeff", "\r\n"), ("", "\r")):
        file = (start + KINDS.replace("\n", end)).encode()
        tuned = check_source(file).tuned("signed=true,samples=050,noise=1,blur=a.b")
        by_hand = KINDS.replace("= 8", "= 50").replace("-.25", "1.0").replace('"ßoft"', "'a.b'")
        assert tuned.code == by_hand.replace("False", "True").replace("\n", end).encode()
        assert tuned.id == f"{check_source(file).id}(samples=50,noise=1,blur=a.b,signed=True)"
        assert (tuned.source, tuned.file_id) == (file, check_source(file).id)


def test_defaults_written_out_are_the_plain_entry():
    plain = entry()
    for listed in ("", "samples=8", " noise = -0.250 ,signed=false"):
        assert plain.tuned(listed) == plain
    exact = entry(KINDS.replace("-.25", "0.123456789"))
    assert exact.tuned("noise=0.123456789").id == exact.id
    assert exact.tuned("noise=0.12345678").id == f"{exact.id}(noise=0.123457)"


@pytest.mark.parametrize(
    ("listed", "line"),
    [
        ("sample=8", "'mine' has no parameter 'sample'; it has: samples, noise, blur, signed"),
        ("samples=8.5", "samples of 'mine' is '8.5', expected a whole number"),
        ("samples=٥", "samples of 'mine' is '٥', expected a whole number"),
        ("noise=nan", "noise of 'mine' is 'nan', expected a number from -1e"),
        ("noise=2e9", "noise of 'mine' is '2e9', expected a number"),
        ("noise=1_0", "noise of 'mine' is '1_0', expected a number"),
        ("signed=1", "signed of 'mine' is '1', expected True or False"),
        ("blur=" + "x" * 101, "blur of 'mine' is 'xxx"),
        ("blur='a'", "blur of 'mine' is ''a'', expected"),
        ("blur=a~trusted", "blur of 'mine' is 'a~trusted', expected"),
        ("samples", r"cannot read the parameters of 'mine\(samples\)'; write each once"),
        ("samples=8,samples=9", "cannot read the parameters"),
    ],
)
def test_bad_values_are_refused_in_one_line(listed, line):
    with pytest.raises(CallerError, match=f"^{line}") as caught:
        entry().tuned(listed)
    assert "\n" not in str(caught.value)


def test_parameters_follow_the_name_of_a_file(tmp_path):
    odd = tmp_path / "mine(1).py"
    odd.write_text(KINDS)
    assert read_submission(odd).values == ()
    assert read_submission(Path(f"{odd}(samples=9)")).values == (("samples", 9),)
    with pytest.raises(CallerError, match="no parameter between its parentheses"):
        read_submission(Path(f"{odd}()"))


def test_an_id_has_parameters_before_marks_and_twins():
    name = "mine@0123abcd(samples=50,noise=1e-05,blur=a.b)~trusted~cuda~blurred"
    found = find_estimator(name)
    assert (found.id, found.twin, found.marks, found.submitted) == (name, "blurred", ("trusted", "cuda"), True)
    asked = EstimatorId.read(name)
    assert (asked.file, asked.listed) == ("mine@0123abcd", "samples=50,noise=1e-05,blur=a.b")
    assert find_estimator(found.parent).fingerprint != find_estimator("mine@0123abcd~trusted~cuda").fingerprint
    for wrong in ("mine@0123abcd()", "mine@0123abcd(a)", "mine@0123abcd(a=)", "mine@0123abcd~trusted(a=1)", "m@0(a=1)"):
        with pytest.raises(CallerError, match="no estimator"):
            find_estimator(wrong)
