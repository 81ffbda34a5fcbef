import pytest

from roarbench.analysis.paper_curves import hooker2019, published_curves
from roarbench.errors import UnknownName
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.terms import PAPER_LEVELS, Order


@pytest.mark.parametrize("order", Order)
def test_hooker_is_a_full_table_in_our_words(order: Order) -> None:
    curves = hooker2019(order)
    assert set(curves) == {"imagenet", "food101", "birdsnap"}
    for rows in curves.values():
        assert len(rows) == 14
        assert set(rows) <= set(ESTIMATORS)
        for curve in rows.values():
            assert tuple(curve) == (0.0, *PAPER_LEVELS)
            assert all(0 < accuracy < 1 for accuracy in curve.values())


def test_kar_is_read_by_the_fraction_removed() -> None:
    """Kept 10 percent of VAR-GRAD on ImageNet is 53.38: that is t = 0.9."""
    kept = hooker2019(Order.LERF)["imagenet"]["var-grad"]
    assert hooker2019(Order.MORF)["imagenet"]["random"][0.9] == 0.6353  # the number of the text
    assert kept == {0.0: 0.7668, 0.1: 0.7392, 0.3: 0.7322, 0.5: 0.7215, 0.7: 0.6986, 0.9: 0.5338}


def test_a_data_set_that_was_not_published_is_the_callers_mistake() -> None:
    assert published_curves("imagenet", Order.MORF)["sobel-released"]
    with pytest.raises(UnknownName, match="did you mean 'imagenet'"):
        published_curves("imagnet", Order.MORF)
