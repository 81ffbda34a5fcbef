"""How rankings were made, image after image."""

import pytest

from roarbench.store.map_provenance import ExplainedBatches, merged, without

PARTS = [
    ExplainedBatches(64, 64, "float32"),
    ExplainedBatches(64, 64, "float32"),
    ExplainedBatches(64, 64, "bf16"),
    ExplainedBatches(10, 10, "bf16"),
]


def by_image(parts: list[ExplainedBatches]) -> list[tuple[int, str]]:
    return [(part.at_once, part.precision) for part in parts for _ in range(part.images)]


def test_neighbours_that_were_made_alike_are_one() -> None:
    assert merged(PARTS) == [
        ExplainedBatches(128, 64, "float32"),
        ExplainedBatches(64, 64, "bf16"),
        ExplainedBatches(10, 10, "bf16"),
    ]
    assert merged([]) == []


@pytest.mark.parametrize("first", [0, 1, 63, 64, 65, 128, 192, 201, 202])
def test_without_the_first_images_the_others_stay_what_they_were(first: int) -> None:
    assert by_image(list(without(first, PARTS))) == by_image(PARTS)[first:]
