"""The program behind docs/noise.md: what it asks for, and what it makes of results."""

from importlib import import_module

import pytest

from roarbench.plan.keys import bind
from roarbench.plan.points import expand
from roarbench.plan.suites import find_suite


@pytest.fixture
def sweep():
    return import_module("noise_sweep")


def test_controls_are_shared_and_the_default_is_the_suites_own_row(sweep):
    runs = {
        recipe: {bind(suite, point, "da7a", None) for point in expand(suite)}
        for recipe, suite in ((recipe, sweep.sweep_suite(recipe)) for recipe in sweep.REFERENCES)
    }
    ordinary, noisy = runs.values()
    assert len(ordinary) == 2 + 10
    assert len(noisy) == 2 + 4
    assert {run.cell.estimator for run in ordinary & noisy} == {"none", "random"}
    quick = find_suite("quick@2")
    assert {bind(quick, point, "da7a", None).key for point in expand(quick)} >= {
        run.key for run in ordinary if "(" not in run.cell.estimator
    }


def test_a_line_for_each_noise_and_a_dash_for_what_is_missing(sweep, tmp_path):
    rows = [
        sweep.Swept(recipe, form, noise, None if noise == 0.2 else 10 * noise, 0.5, 1 - noise)
        for recipe in sweep.REFERENCES
        for form in sweep.FORMS
        for noise in sweep.ASKED[recipe]
    ]
    lines = sweep.table(rows).splitlines()
    assert len(lines) == 2 + len(sweep.NOISES)
    assert lines[2] == "| 0.02 | 98% | +0.2 | +0.2 | \u2013 | \u2013 | \u2013 |"
    assert lines[3] == "| 0.05 | 95% | +0.5 | +0.5 | 95% | +0.5 | +0.5 |"
    assert lines[-1] == "| 0.2 | 80% | \u2013 | \u2013 | \u2013 | \u2013 | \u2013 |"
    sweep.draw(rows, tmp_path / "noise.png")
    assert (tmp_path / "noise.png").stat().st_size > 5000
