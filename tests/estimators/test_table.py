"""The table of estimators: 18 of the paper, controls, and twins made from an id."""

from dataclasses import replace

import pytest

from roarbench.errors import UnknownName
from roarbench.estimators import CONTROLS, UNRANKED_TWINS
from roarbench.estimators.catalogue import PAPER, TWINS, find_estimator
from roarbench.estimators.ids import EstimatorId


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("grad", EstimatorId("grad")),
        ("ig(steps=7,baseline=blur)~blurred", EstimatorId("ig", None, "steps=7,baseline=blur", (), ("blurred",))),
        ("grad~untrained~other-image", EstimatorId("grad", twins=("untrained", "other-image"))),
        ("grad~trusted", EstimatorId("grad", twins=("trusted",))),  # only a submission is run without the sandbox
        (
            "my@0123abcd(a=x.y)~trusted~cuda~decoy",
            EstimatorId("my", "0123abcd", "a=x.y", ("trusted", "cuda"), ("decoy",)),
        ),
        ("grad()", EstimatorId("grad", None, "")),
        ("grad~", EstimatorId("grad", twins=("",))),
        ("", EstimatorId("")),
        ("grad(a=1)(b=2)", EstimatorId("grad(a=1)(b=2)")),
        ("grad(a=1", EstimatorId("grad(a=1")),
    ],
)
def test_an_id_is_taken_apart_and_put_together(text, parts):
    assert EstimatorId.read(text) == parts
    assert str(parts) == text
    assert str(replace(parts, listed=None)) == str(parts.default)


def test_controls_twins_and_checks():
    assert CONTROLS == ("random", "sobel", "random-blurred")
    assert all(find_estimator(name).placed for name in (*CONTROLS, *PAPER, "truth", "mine@12345678~cuda"))
    checks = ("random-redrawn", "sobel~blurred", *(f"grad~{twin}" for twin in TWINS))
    assert not any(find_estimator(name).placed for name in checks)
    assert find_estimator("sobel~blurred").control
    assert find_estimator("random-blurred").twin == "blurred"
    for name in ("sobel~untrained", "sobel~other-target", "random~blurred", "random-redrawn~blurred"):
        with pytest.raises(UnknownName, match=name):
            find_estimator(name)


@pytest.mark.parametrize("entry", ["var-grad", "mine@0123abcd", "mine@0123abcd~trusted~cuda"])
def test_twins_are_their_parents_with_a_twin(entry):
    parent, found = find_estimator(entry), {twin: find_estimator(f"{entry}~{twin}") for twin in TWINS}
    assert parent.marks == ("trusted", "cuda")[: entry.count("~")]
    for twin, row in found.items():
        assert (row.twin, row.parent, row.submitted, row.marks) == (twin, entry, "@" in entry, parent.marks)
        assert (row.base, row.form, row.control) == (parent.base, parent.form, parent.control)
        assert EstimatorId.read(row.id).explains_next == (twin == "other-reference")
        assert row.variant == ("trained" if twin in ("blurred", *UNRANKED_TWINS) else twin)
        assert not row.placed
    assert len({parent.fingerprint, *(row.fingerprint for row in found.values())}) == 1 + len(TWINS)
    for name in (f"{entry}~redrawn", f"{entry}~blurred~blurred", f"{entry}~"):
        with pytest.raises(UnknownName):
            find_estimator(name)


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("var-grd(noise=0.05)", "no estimator 'var-grd'; did you mean 'var-grad'"),
        ("var-grad~blured", "did you mean 'var-grad~blurred'"),
        ("grad~blurred~blurred", "no estimator"),
    ],
)
def test_unknown_names_are_guessed(name, guess):
    with pytest.raises(UnknownName, match=guess):
        find_estimator(name)


def test_a_submission_is_guessed_by_its_name_alone():
    for entry in ("turned@1a2b3c4d(sign=-1)", "turned@1a2b3c4d"):
        with pytest.raises(UnknownName) as refused:
            find_estimator("turned", ("grad", entry))
        assert f"did you mean '{entry}'?" in str(refused.value)
