"""The table of estimators: 18 of the paper, controls, and twins made from an id."""

import subprocess
import sys
from dataclasses import fields, replace

import pytest

from roarbench.errors import UnknownName
from roarbench.estimators import CONTROLS, UNRANKED_TWINS, Estimator
from roarbench.estimators.catalogue import ESTIMATORS, PAPER, TWINS, find_estimator
from roarbench.estimators.ids import EstimatorId, twin_id


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


def test_what_explains_the_next_reference_says_so():
    names = ("grad", "ig(steps=7)", "my@0123abcd~cuda")
    assert all(EstimatorId.read(twin_id(name, "other-reference")).explains_next for name in names)
    assert not any(EstimatorId.read(twin_id(name, "other-image")).explains_next for name in names)


def test_the_papers_18_are_six_forms_of_three_bases():
    kinds = {(ESTIMATORS[name].base, ESTIMATORS[name].form) for name in PAPER}
    assert len(PAPER) == len(kinds) == 18
    assert len({base for base, _ in kinds}) == 3
    assert not any(ESTIMATORS[name].control or ESTIMATORS[name].twin for name in PAPER)
    assert all(ESTIMATORS[name].control for name in CONTROLS)


def test_a_version_at_its_default_is_no_part_of_a_hash_so_that_rows_count_up_themselves():
    first = find_estimator("grad")
    assert {field.name: field.default for field in fields(Estimator)}["version"] == 1
    assert replace(first, version=2).fingerprint != first.fingerprint


def test_a_blurred_random_map_is_a_control_and_twins_are_no_rows_of_their_own():
    assert CONTROLS == ("random", "sobel", "random-blurred")
    assert all(find_estimator(name).placed for name in (*CONTROLS, *PAPER, "truth", "mine@12345678~cuda"))
    checks = ("random-redrawn", "sobel~blurred", *(f"grad~{twin}" for twin in TWINS))
    assert not any(find_estimator(name).placed for name in checks)


@pytest.mark.parametrize("twin", TWINS)
def test_twins_are_their_parents_with_a_twin(twin):
    found, parent = find_estimator(f"var-grad~{twin}"), find_estimator("var-grad")
    assert (found.id, found.twin) == (f"var-grad~{twin}", twin)
    assert (found.base, found.form, found.control) == (parent.base, parent.form, parent.control)
    assert found.fingerprint != parent.fingerprint
    assert found.variant == ("trained" if twin in ("blurred", *UNRANKED_TWINS) else twin)


@pytest.mark.parametrize("entry", ["mine@0123abcd", "mine@0123abcd~trusted~cuda"])
def test_a_submission_has_the_twins_of_an_estimator(entry):
    parent, found = find_estimator(entry), {twin: find_estimator(f"{entry}~{twin}") for twin in TWINS}
    assert parent.marks == ("trusted", "cuda")[: entry.count("~")]
    for twin, row in found.items():
        assert (row.twin, row.parent, row.submitted, row.marks) == (twin, entry, True, parent.marks)
        assert row.variant == ("trained" if twin in ("blurred", *UNRANKED_TWINS) else twin)
        assert not row.placed
    assert len({parent.fingerprint, *(row.fingerprint for row in found.values())}) == 1 + len(TWINS)
    for name in (f"{entry}~redrawn", f"{entry}~blurred~blurred", f"{entry}~"):
        with pytest.raises(UnknownName):
            find_estimator(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("mycam", "mycam@ff7ff536"),
        ("mycamm", "mycam@ff7ff536"),
        ("mycam~blurred", "mycam@ff7ff536~blurred"),
        ("mycam@ff7ff53", "mycam@ff7ff536"),
    ],
)
def test_a_short_name_offers_the_full_id(name, meant):
    with pytest.raises(UnknownName, match=f"did you mean '{meant}'"):
        find_estimator(name, ("mycam@ff7ff536", "mycam@ff7ff536~blurred"))


def test_controls_have_a_blurred_twin_at_most():
    assert find_estimator("sobel~blurred").control
    assert find_estimator("random-blurred").twin == "blurred"
    for name in ("sobel~untrained", "sobel~other-target", "random~blurred", "random-redrawn~blurred"):
        with pytest.raises(UnknownName, match=name):
            find_estimator(name)


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("smothgrad", "no estimator 'smothgrad'"),
        ("var-grd", "did you mean 'var-grad'"),
        ("var-grad~blured", "did you mean 'var-grad~blurred'"),
        ("nothing~blurred", "no estimator 'nothing~blurred'"),
        ("grad~", "did you mean 'grad"),
        ("grad~blurred~blurred", "no estimator"),
    ],
)
def test_unknown_names_are_guessed(name, guess):
    with pytest.raises(UnknownName, match=guess):
        find_estimator(name)


def test_the_table_does_not_import_torch():
    code = "import sys, roarbench.estimators.catalogue; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
