"""The cheapest way to an answer: chosen among what was measured, priced for this machine."""

import json

import pytest

from roarbench.analysis.boards import SuiteResults
from roarbench.errors import CallerError
from roarbench.forecast.plan import make_plan
from roarbench.forecast.question import answer_record, costed, measured_ways, ways_to
from roarbench.forecast.rates import CORE, assume
from roarbench.forecast.workload import count_work
from roarbench.plan.points import expand, select
from roarbench.plan.suites import find_suite
from roarbench.protocols import PROTOCOLS

QUICK = find_suite("quick@2")


def of(protocol, seeds, until_decided=False):
    asked = ("quick@2", protocol, seeds, until_decided)
    return next(w for w in measured_ways() if (w.suite, w.protocol, w.seeds, w.until_decided) == asked)


def test_every_way_is_of_a_suite_as_it_is_and_of_no_more_seeds_than_it_has():
    for way in measured_ways():
        blocks = [block for block in find_suite(way.suite).blocks if block.protocol == PROTOCOLS[way.protocol]]
        assert way.seeds <= max(block.seeds for block in blocks)
        assert 0 <= way.same <= 1 and 0 <= way.same_as_roar <= 1 and way.trainings <= way.seeds


def test_only_ways_that_find_the_difference_are_named():
    for difference in (2.5, 3.0, 5.0):
        able = [w for w in measured_ways() if w.detectable is not None and w.detectable <= difference]
        assert 0 < len(able) < len(measured_ways())
        assert ways_to("beats random", difference) == able
        assert ways_to("beats random", difference, "quick@2") == [w for w in able if w.suite == "quick@2"]


@pytest.mark.parametrize(
    ("words", "message"),
    (
        (("beats grad", None), "no question 'beats grad'; it can be: 'beats random'"),
        (("beats random", 2.0, "cifar10"), "what suite 'cifar10' finds was not measured; it is known of: quick-"),
        (("beats random", 0.1), r"no way that was measured finds 0\.1 points; the finest, specific with 3 seeds"),
    ),
)
def test_what_cannot_be_answered_is_said_in_a_line(words, message):
    with pytest.raises(CallerError, match=f"^{message}"):
        ways_to(*words)


def test_a_way_runs_its_protocol_and_a_course_takes_its_share_of_the_forecast():
    assert of("specific", 2).part == select(QUICK, seeds=2, protocol=PROTOCOLS["specific"])
    words, rates = ("--suite", "quick@2", "--protocol", "roar", "--seeds", "3"), assume(QUICK, CORE)
    for until, more in ((False, ()), (True, ("--until-decided",))):
        way = of("roar", 3, until)
        plan = make_plan(SuiteResults(way.part, "", None, {}), count_work(way.part, expand(way.part)), workers=2)
        assert (way.words, plan.runs) == ((*words, *more), len(expand(way.part)))
        assert costed(way, plan, rates).seconds == pytest.approx(plan.wall(rates) * way.trainings / 3)
    record = answer_record("beats random", 2.0, [costed(way, plan, rates)], 2)
    assert json.loads(json.dumps(record))["ways"][0]["protocol"] == "roar"
