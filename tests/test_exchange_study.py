"""The study of own, mixed and exchanged masks: what a mixture is, by hand, and that the page is what was measured."""

import json
from importlib import import_module

import pytest
import torch
from marked import between


@pytest.fixture
def program():
    return import_module("exchange_study")


class Constant:
    """Inputs that are one number everywhere."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __len__(self) -> int:
        return 6

    def batch(self, index):
        return torch.full((len(index), 1, 2, 2), self.value)


def test_a_mixture_gives_each_image_whole_one_of_the_two_with_equal_chance(program):
    mixed = program.Mixed(Constant(0.0), Constant(1.0), torch.Generator().manual_seed(0))
    assert len(mixed) == 6
    drawn = torch.cat([mixed.batch(torch.arange(6)) for _ in range(200)]).flatten(1)
    assert torch.equal(drawn, drawn[:, :1].expand_as(drawn))
    assert abs(float(drawn[:, 0].mean()) - 0.5) < 5 * 0.5 / 1200**0.5


def test_the_page_has_the_table_of_what_was_measured(program):
    found = json.loads(program.OUTCOMES.read_text("utf-8"))
    assert len(found) == len(program.NETWORKS) * len(program.ROWS) * len(program.MASKS)
    page = program.PAGE.read_text("utf-8")
    assert between(page, program.START, program.END) == program.table(found)


def test_what_was_not_trained_is_missing(program):
    made = program.table([["quick", "grad", "own", 0.5, 0.25, 1.0]])
    assert f"| `resnet-quick` | `grad` | 50.0 / 25.0 | {program.MISSING} | {program.MISSING} |" in made
