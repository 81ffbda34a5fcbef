"""Parameters as part of an estimator's name."""

import pytest

from roarbench.errors import CallerError
from roarbench.estimators.catalogue import ESTIMATORS, find_estimator, split_names
from roarbench.estimators.engine import Passes, job_group, passes


def test_another_value_is_another_estimator_of_the_same_form():
    found, default = find_estimator("var-grad(noise=0.05)"), ESTIMATORS["var-grad"]
    assert (found.base, found.form, found.default, found.parent) == ("grad", "variance", "var-grad", found.id)
    assert found.placed and found.shared and not found.control
    assert found.about == "VarGrad: variance of the gradient over noisy copies; noise 0.05"
    fingerprints = {find_estimator(f"var-grad(noise={noise})").fingerprint for noise in (0.02, 0.05, 0.15, 2)}
    assert len(fingerprints) == 4
    assert default.fingerprint in fingerprints
    twin = find_estimator("var-grad(noise=0.05)~blurred")
    assert (twin.parent, twin.default, twin.values) == (found.id, "var-grad~blurred", (("noise", 0.05),))
    assert twin.fingerprint != found.fingerprint


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("var-grad( noise = 5e-2 )", "var-grad(noise=0.05)"),
        ("var-grad(noise=0.0500000001)", "var-grad(noise=0.05)"),
        ("sgsq-ig(noise=.15)~blurred", "sgsq-ig~blurred"),
        ("var-grad(noise= 15e-2 )", "var-grad"),
        ("ig(baseline=blur, steps=100)", "ig(steps=100,baseline=blur)"),
        ("var-grad(samples=50,noise=.05)", "var-grad(noise=0.05,samples=50)"),
        ("var-grad(samples=50,noise=.15)~untrained", "var-grad(samples=50)~untrained"),
        ("gradcam(layer=block2)~blurred", "gradcam(layer=block2)~blurred"),
        ("rise(samples=04000,patches=7)", "rise(samples=4000)"),
        ("random-smooth(width=2e-2)", "random-smooth(width=0.02)"),
    ],
)
def test_a_name_has_its_parameters_in_one_order_and_form(written, name):
    found = find_estimator(written)
    assert found.id == name
    assert find_estimator(name) == found
    assert (found.parent == name) == (not found.twin)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("var-grad(nois=0.05)", "'var-grad' has no parameter 'nois'; it has: noise"),
        ("var-grad(noise=0)", "noise of 'var-grad' is '0', expected a number above 0, at most 2"),
        ("var-grad(noise=nan)", "noise of 'var-grad' is 'nan', expected a number above 0, at most 2"),
        ("ig(steps=2.5)", "steps of 'ig' is '2.5', expected a whole number"),
        ("ig(baseline=white)", "baseline of 'ig' is 'white', expected black, mean or blur: what an image is without"),
        ("var-grad(samples=1)", "samples of 'var-grad' is '1', expected a whole number from 2 to 100000"),
        ("gradcam(layer=block0)", "layer of 'gradcam' is 'block0', expected last"),
        ("rise(patches=65)", "patches of 'rise' is '65', expected a whole number from 2 to 64"),
        ("var-grad()", r"cannot read the parameters of 'var-grad\(\)'; write each once"),
        ("var-grad(noise=0.05,noise=0.1)", "cannot read the parameters"),
        ("var-grad(noise=0.05", r"cannot read the estimator 'var-grad\(noise=0.05'; write ID\(noise=0.05\)"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(name, words):
    with pytest.raises(CallerError, match=words) as caught:
        find_estimator(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,b", ["a", "b"]),
        ("a(x=1,y=2),b", ["a(x=1,y=2)", "b"]),
        ("a(x=1,y=2)~blurred,b(z=3)", ["a(x=1,y=2)~blurred", "b(z=3)"]),
        ("a(x=1,", ["a(x=1,"]),
        ("a),b", ["a)", "b"]),
        ("", [""]),
    ],
)
def test_lists_are_split_outside_of_parentheses(text, parts):
    assert split_names(text) == parts


def test_passes_are_shared_by_those_with_the_same_noise():
    names = ("grad", "var-grad", "sgsq-grad", "var-grad(noise=0.05)", "sgsq-grad(noise=0.05)~blurred")
    assert passes(map(find_estimator, names)) == Passes(1 + 15 + 15, 1 + 15 + 15)
    assert passes([find_estimator("grad"), find_estimator("gb~untrained")]) == Passes(2, 2)
    assert passes([find_estimator("sgsq-ig(samples=4,steps=50)")]) == Passes(200, 200)
    assert passes([find_estimator("ig"), find_estimator("ig(baseline=blur)")]) == Passes(50, 50)
    assert {job_group(find_estimator(name)) for name in names} == {"trained"}
