"""A vision transformer as reference and as retrained network, from pictures to a table."""

import json

import pytest

from roarbench.plan.suite_file import read_suite
from tests.helpers.command_line import command
from tests.helpers.own_photos import TEXT, write_suite

pytestmark = pytest.mark.slow
WHY = "guided backprop needs ReLUs and the network has none"


def test_from_pictures_to_a_table(tmp_path, capsys):
    network = "vit-quick"
    text = TEXT.replace('"resnet-planted"', f'"{network}"').replace('["grad"]', '["grad", "gb", "ig", "sg-gb"]')
    text = text.replace('["roar"]', '["roar", "specific", "morf"]').replace(
        '"planted-brief@1"\nepochs = 1', '"modern@1"\nepochs = 20'
    )
    path = write_suite(tmp_path, text)
    asked = ("--suite", path, "--store", tmp_path / "store")
    assert command("run", *asked) == 0
    assert capsys.readouterr().err.count(WHY) == 2  # of gb and of sg-gb
    assert command("table", *asked, "--format", "json") == 0
    table = json.loads(capsys.readouterr().out)
    rows = {row["estimator"]: row["curve"] for row in table["rows"]}
    assert set(rows) == {"random", "sobel", "random-blurred", "grad", "ig"}
    assert rows["random"]["0.0"] >= 0.8  # the colour tells the class: it has learnt, and a guess is right on a third
    assert read_suite(path).model == network
