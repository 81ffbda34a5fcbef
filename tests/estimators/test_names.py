"""Estimator names: the paper's estimators, controls, twins, and parameters in names."""

from dataclasses import replace

import pytest

from roarbench.common.errors import CallerError
from roarbench.estimators.catalogue import (
    ESTIMATORS,
    PAPER_IDS,
    TWINS,
    choose_row_names,
    find_estimator,
    map_row_names_to_ids,
    split_estimator_ids,
)
from roarbench.estimators.estimator import CONTROLS, UNRANKED_TWINS
from roarbench.estimators.ids import EstimatorId


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("grad~untrained~other-image", EstimatorId("grad", twins=("untrained", "other-image"))),
        ("grad~trusted", EstimatorId("grad", twins=("trusted",))),  # only a submission is run without the sandbox
        (
            "my@0123abcd(a=x.y)~trusted~cuda~shuffled",
            EstimatorId("my", "0123abcd", "a=x.y", ("trusted", "cuda"), ("shuffled",)),
        ),
        ("grad()", EstimatorId("grad", None, "")),
        ("grad(a=1", EstimatorId("grad(a=1")),
    ],
)
def test_estimator_id_parse_and_str_round_trip(text, parts):
    assert EstimatorId.parse(text) == parts
    assert str(parts) == text
    assert str(replace(parts, listed=None)) == str(parts.without_parameters)


@pytest.mark.parametrize("parts", [["a", "b"], ["a(x=1,y=2)~blurred", "b(z=3)"], ["a(x=1,"], ["a)", "b"], [""]])
def test_split_estimator_ids_ignores_commas_in_parentheses(parts):
    assert split_estimator_ids(",".join(parts)) == parts


def test_has_own_row_is_false_for_twins_and_checks():
    assert all(find_estimator(name).has_own_row for name in (*CONTROLS, *PAPER_IDS, "truth", "mine@12345678~cuda"))
    checks = ("random-redrawn", "sobel~blurred", *(f"grad~{twin}" for twin in TWINS))
    assert not any(find_estimator(name).has_own_row for name in checks)
    assert find_estimator("sobel~blurred").control
    assert find_estimator("random-blurred").twin == "blurred"


@pytest.mark.parametrize("entry", ["var-grad", "mine@0123abcd", "mine@0123abcd~trusted~cuda"])
def test_twin_has_attributes_of_parent_and_own_fingerprint(entry):
    parent, found = find_estimator(entry), {twin: find_estimator(f"{entry}~{twin}") for twin in TWINS}
    assert parent.parsed_id.marks == ("trusted", "cuda")[: entry.count("~")]
    for twin, row in found.items():
        assert (row.twin, row.id_without_last_twin, row.submitted) == (twin, entry, "@" in entry)
        assert row.parsed_id.marks == parent.parsed_id.marks
        assert (row.base, row.form, row.control) == (parent.base, parent.form, parent.control)
        assert EstimatorId.parse(row.id).explains_next_network == (twin == "other-reference")
        assert row.explained_variant == ("trained" if twin in ("blurred", *UNRANKED_TWINS) else twin)
    assert len({parent.fingerprint, *(row.fingerprint for row in found.values())}) == 1 + len(TWINS)


def test_parameter_value_changes_fingerprint_but_not_form():
    found, default = find_estimator("var-grad(noise=0.05)"), ESTIMATORS["var-grad"]
    assert (found.base, found.form, found.id_without_last_twin) == ("grad", "variance", found.id)
    assert str(found.parsed_id.without_parameters) == "var-grad"
    fingerprints = {find_estimator(f"var-grad(noise={noise})").fingerprint for noise in (0.02, 0.05, 0.15, 2)}
    assert len(fingerprints) == 4
    assert default.fingerprint in fingerprints
    twin = find_estimator("var-grad(noise=0.05)~blurred")
    assert (twin.id_without_last_twin, twin.values) == (found.id, (("noise", 0.05),))
    assert str(twin.parsed_id.without_parameters) == "var-grad~blurred"
    assert {row.job_group for row in (found, default, twin, ESTIMATORS["grad"])} == {"trained"}


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("var-grad( noise = 5e-2 )", "var-grad(noise=0.05)"),
        ("var-grad(noise=0.0500000001)", "var-grad(noise=0.05)"),
        ("sgsq-ig(noise= 15e-2)~blurred", "sgsq-ig~blurred"),
        ("ig(baseline=blur, steps=100)", "ig(steps=100,baseline=blur)"),
        ("var-grad(samples=50,noise=.15)~untrained", "var-grad(samples=50)~untrained"),
        ("rise(samples=04000,patches=7)", "rise(samples=4000)"),
    ],
)
def test_find_estimator_normalises_parameters(written, name):
    found = find_estimator(written)
    assert found.id == name
    assert find_estimator(name) == found
    assert (found.id_without_last_twin == name) == (not found.twin)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("var-grad(nois=0.05)", "'var-grad' has no parameter 'nois'; it has: noise"),
        ("var-grad(noise=0)", "noise of 'var-grad' is '0', expected a number above 0, at most 2"),
        ("var-grad(noise=nan)", "expected a number above 0"),
        ("ig(steps=2.5)", "expected a whole number"),
        ("ig(baseline=white)", "baseline of 'ig' is 'white', expected black, mean or blur: image without information"),
        ("gradcam(layer=block0)", "expected last"),
        ("rise(patches=65)", "patches of 'rise' is '65', expected a whole number from 2 to 64"),
        ("var-grad(noise=0.05,noise=0.1)", "cannot read the parameters"),
        ("var-grad(noise=0.05", r"cannot read the estimator 'var-grad\(noise=0.05'; write ID\(noise=0.05\)"),
        ("var-grd(noise=0.05)", "no estimator 'var-grd'; did you mean 'var-grad'"),
        *((name, "did you mean 'ig'") for name in ("IntegratedGradients", "captum.attr.IntegratedGradients")),
        *((name, "did you mean 'sg-grad'") for name in ("SmoothGrad", "smoothgrad(samples=5)")),
        ("Grad-CAM", "did you mean 'gradcam'"),
        ("Saliency", r"did you mean 'grad'\?$"),
        ("captum.attr.InputXGradient", r"did you mean 'input-x-grad'\?$"),
        ("LayerGradCam", r"did you mean 'gradcam'\?$"),
        ("saliency", r"did you mean 'saliency@1a2b3c4d'\?"),  # a row of the suite comes before a library's name
        ("var-grad~blured", "did you mean 'var-grad~blurred'"),
        ("turned", r"did you mean 'turned@1a2b3c4d\(sign=-1\)'\?"),
        *((name, f"no estimator '{name}'") for name in ("sobel~untrained", "random~blurred", "random-redrawn~blurred")),
        *((name, f"no estimator '{name}'") for name in ("grad~", "grad~redrawn", "mine@0123abcd~cuda~blurred~blurred")),
    ],
)
def test_find_estimator_rejects_invalid_names_with_suggestion(name, words):
    with pytest.raises(CallerError, match=words) as caught:
        find_estimator(name, ("grad", "turned@1a2b3c4d(sign=-1)", "saliency@1a2b3c4d"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (["grad", "mine@0a1b2c3d~trusted", "mine@0a1b2c3d~trusted~untrained"], ["grad", "mine", "mine~untrained"]),
        (["mine@0a1b2c3d", "mine@0a1b2c3d(samples=50)"], ["mine", "mine(samples=50)"]),
        # two rows share a name: another file, or the same file without the sandbox
        (["mine@0a1b2c3d", "mine@ffffffff~untrained"], ["mine@0a1b2c3d", "mine@ffffffff~untrained"]),
        (["mine@0a1b2c3d", "mine@0a1b2c3d~trusted"], ["mine@0a1b2c3d", "mine@0a1b2c3d~trusted"]),
        (["ig@0a1b2c3d", "grad~untrained"], ["ig@0a1b2c3d", "grad~untrained"]),  # names of built-in estimators
        (["rise"], ["rise(samples=256)"]),
        (["search", "search(passes=8)"], ["search(passes=32)", "search(passes=8)"]),
        (["search(baseline=black)~blurred"], ["search(passes=32,baseline=black)~blurred"]),
    ],
)
def test_choose_row_names_shortens_unique_submission_names(rows, names):
    assert list(choose_row_names(rows).values()) == names
    ids = map_row_names_to_ids(rows)
    assert [ids.get(name, name) for name in names] == rows
