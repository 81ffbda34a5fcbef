"""Functions on the rows of a table, images of one pixel with one channel per column: no column has neighbours."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import roarbench as rb
from roarbench.common.errors import CallerError

COLUMNS = 12
ROWS = torch.randn(60, COLUMNS, generator=torch.Generator().manual_seed(0))
TABLE = ROWS[:, :, None, None]
LABELS = (ROWS[:, 0] > 0).long()


@pytest.fixture(scope="module")
def tabular_networks():
    """Three networks that classify by the first column, each with different weights of the other columns."""
    torch.manual_seed(0)  # of the networks' own weights
    networks = [nn.Sequential(nn.Flatten(), nn.Linear(COLUMNS, 2)) for _ in range(3)]
    for network in networks:
        network[1].weight.data[:, 0] = torch.tensor([-3.0, 3.0])
    return networks


def test_check_of_table_leaves_out_sobel_and_linear(tabular_networks):
    table = rb.check(tabular_networks[0], TABLE, LABELS, ["grad", "input-x-grad"], tabular_networks[1:])
    assert list(table.gains) == ["morf mean", "lerf mean", "own network"]
    assert list(table.gains["morf mean"]) == ["random", "grad", "input-x-grad"]
    gain = table.gain("morf mean", "input-x-grad")
    assert gain.low > 0, "the first column decides"
    caption = table.caption
    assert "\nLeft out: sobel and the fill linear: the columns of a table have no neighbours.\n60 rows, of " in caption
    assert "image" not in caption + table.own_network.caption


def test_check_of_table_at_chance_counts_rows(tabular_networks):
    with pytest.warns(UserWarning, match="classifies .* of 60 rows correctly"):
        rb.check(tabular_networks[0], TABLE, 1 - LABELS, ["grad"])


@pytest.mark.parametrize("name", ["sobel", "occlusion", "ig(baseline=blur)"])
def test_estimator_that_uses_neighbours_is_refused_for_table(tabular_networks, name):
    words = re.escape(f"'{name}' uses neighbouring pixels, and the columns of a table have no neighbours; leave it out")
    with pytest.raises(CallerError, match=words):
        rb.check(tabular_networks[0], TABLE, LABELS, [name])
    with pytest.raises(CallerError, match=words):
        rb.own_network_gain(tabular_networks, TABLE, [name])


@pytest.mark.parametrize(
    ("rows", "written"), [(ROWS, "images"), (ROWS.numpy(), "images"), (pd.DataFrame(ROWS), r"np\.asarray\(images\)")]
)
def test_refusal_of_two_dimensional_table_says_what_to_write(tabular_networks, rows, written):
    words = rf"; for a table write {written}\[:, :, None, None\], and nn.Sequential\(nn.Flatten\(\), model\) for its"
    for call in (rb.check, rb.perturbation_curve):
        with pytest.raises(CallerError, match=words):
            call(tabular_networks[0], rows, LABELS, np.zeros((60, COLUMNS)))


def test_refusal_of_network_of_two_dimensional_table_says_what_to_write(tabular_networks):
    words = (
        r"shapes cannot be multiplied .*; a network of \(n, columns\) becomes nn.Sequential\(nn.Flatten\(\), network"
    )
    with pytest.raises(CallerError, match=words):
        rb.check(tabular_networks[0][1], TABLE, LABELS, ["grad"])


@pytest.mark.parametrize("fill", ["linear", "neighbours", "blur"])
def test_fill_from_neighbours_is_refused_for_table(tabular_networks, fill):
    words = f"^fill '{fill}' is computed from neighbouring pixels, which a table lacks; use one of mean, black, noise$"
    with pytest.raises(CallerError, match=words):
        rb.perturbation_curve(tabular_networks[0], TABLE, LABELS, TABLE, fill=fill)
    with pytest.raises(CallerError, match=words):
        rb.check(tabular_networks[0], TABLE, LABELS, ["grad"], fills=("mean", fill))
    with pytest.raises(CallerError, match=words):
        rb.fill(TABLE.byte(), TABLE > 0, by=fill)
    with pytest.raises(CallerError, match="^unit is 'pixel', but a table has no pixels; use scalar$"):
        rb.own_network_gain(tabular_networks, TABLE, ["grad"], unit="pixel")


@pytest.mark.parametrize("fill", ["mean", "black", "noise"])
def test_perturbation_curve_of_table_falls_with_every_other_fill(tabular_networks, fill):
    curve = rb.perturbation_curve(tabular_networks[0], TABLE, LABELS, TABLE.abs(), fill=fill)
    assert curve.accuracy[0].value > 0.9 > curve.accuracy[-1].value


def test_functions_warn_of_maps_in_which_most_columns_tie(tabular_networks):
    """A map of shape (n, 1, 1) gives all columns of a row the same value."""
    maps = TABLE[:, 0]
    words = (
        r"^more than 50% of the features in the maps \(100%\) have the same value in float32; equal values are ranked"
    )
    calls = {
        "rank": lambda: rb.rank(maps, (COLUMNS, 1, 1)),
        "remove": lambda: rb.remove(TABLE, maps, 0.5),
        "match_masks": lambda: rb.match_masks(TABLE.byte(), maps, maps, 0.5),
        "perturbation_curve": lambda: rb.perturbation_curve(tabular_networks[0], TABLE, LABELS, maps),
    }
    for call in calls.values():
        with pytest.warns(UserWarning, match=words) as caught:
            call()
        assert {Path(warning.filename).name for warning in caught} == {Path(__file__).name}


def test_functions_do_not_warn_of_a_single_feature_or_half_tied_maps():
    half = TABLE.clone()
    half[:, ::2] = 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rb.rank(TABLE[:, 0])
        rb.remove(TABLE, half, 0.5)
    assert [warning.message for warning in caught] == []


@pytest.mark.parametrize("rows", [ROWS, TABLE, ROWS.numpy(), pd.DataFrame(ROWS)])
def test_suite_from_arrays_sends_tables_to_new_suite(tabular_networks, rows, tmp_path):
    words = r"^test images have shape \(60, 12.*\), as a table has; write it .*: roarbench new-suite FILE.csv$"
    with pytest.raises(CallerError, match=words):
        rb.Suite.from_arrays(tabular_networks[0], None, (rows, LABELS), protocols=("morf",), store=tmp_path)


def test_refusal_of_two_dimensional_maps_or_rows_says_what_to_write(tabular_networks):
    for call in (
        lambda: rb.rank(ROWS),
        lambda: rb.remove(TABLE, ROWS, 0.5),
        lambda: rb.check(tabular_networks[0], TABLE, LABELS, {"mine": ROWS}),
        lambda: rb.check(tabular_networks[0], TABLE, LABELS, {"mine": lambda model, rows, targets: rows.flatten(1)}),
    ):
        with pytest.raises(CallerError, match=r"maps .*; for a table write maps\[:, :, None, None\]$"):
            call()
    with pytest.raises(CallerError, match=r"images .*; for a table write images\[:, :, None, None\]$"):
        rb.remove(ROWS, TABLE, 0.5)
