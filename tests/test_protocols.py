"""The tables of docs/protocols.md: what they are made of, by hand, and that they are what the rows beside them say."""

import math
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from marked import between

from roarbench.plan.suite_file import read_suite
from roarbench.plan.suites import find_suite
from roarbench.stats.bootstrap import Sample
from roarbench.stats.verdicts import Verdict
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import ROAR, SPECIFIC, Order
from tests.helpers.command_line import command

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def program():
    return import_module("who_is_right")


def sample(value, error=1.0):
    """A gain whose 400 draws have this standard error, independent of those of others."""
    generator = np.random.default_rng(round(100 * abs(value)) + 7)
    return Sample(value, value + error * generator.normal(size=400))


@pytest.fixture
def agreements():
    return import_module("agreement_table")


def judged(program, protocol="roar", wrong=0, seconds=60.0, z=5.0, **verdicts):
    found = {"truth": Verdict.BETTER, "random_blurred": Verdict.SAME} | verdicts
    found = {name.replace("_", "-"): verdict for name, verdict in found.items()}
    return program.JudgedProtocol("planted-leaky", "planted-leaky", protocol, 3, wrong, 1, found, z, seconds)


@pytest.mark.slow
def test_known_gains_of_truth_and_its_inverse_are_the_closed_form(program):
    """Left at t = .5 of an image of 768 features: docs/planted.md; a curve of two points has half their distance."""
    suite = find_suite("planted-protocols")
    share = (math.exp(-5) - math.exp(-10)) / (1 - math.exp(-10))
    most, least = (program.known_gains(suite, order, (0.5,)) for order in Order)
    for found in (most, least):
        assert found["truth"] == pytest.approx(50 * (0.5 - share), abs=0.1)
        assert found["truth-inverted"] == pytest.approx(-50 * (0.5 - share), abs=0.1)
        assert found["random"] == pytest.approx(0, abs=0.2)
        assert found["random-blurred"] == pytest.approx(0, abs=1)
        assert 2 < found["sobel"] < found["truth"]


@pytest.mark.slow
def test_a_leak_knows_no_more_than_random_and_the_noisy_truth_less_than_its_blur(program):
    leaky = program.known_gains(find_suite("planted-leaky"), Order.MORF, (0.5,))
    assert abs(leaky["leak"] - leaky["random"]) < program.EQUAL
    smooth = program.known_gains(find_suite("planted-smooth"), Order.MORF, (0.5,))
    names = ("truth", "truth-noisy-blurred", "truth-noisy", "random", "truth-inverted")
    gains = [smooth[name] for name in names]
    assert all(high - low >= program.EQUAL for high, low in zip(gains, gains[1:], strict=False))


def test_pairs_by_hand(program):
    """Best is seen as best; near as far below it, wrongly above worst by less than noise; twin is no pair of near."""
    known = {"best": 20.0, "near": 5.0, "twin": 4.0, "worst": -20.0}
    gains = {"best": sample(30.0), "near": sample(1.0), "twin": sample(40.0), "worst": sample(0.5)}
    # best: above near and worst, below twin; near with worst: open; twin above worst
    assert program.pairs(known, gains) == (3, 1, 1)


def test_errors_failures_and_power_by_hand(program):
    one = judged(program, wrong=2, leak=Verdict.BETTER, seconds=240.0, z=6.0)
    assert (one.errors, one.failed, one.power) == (3, False, 3.0)
    assert judged(program, truth=Verdict.SAME).failed
    assert judged(program, random_blurred=Verdict.WORSE).errors == 0


def test_who_errs_least_leads_then_who_has_most_power_where_it_has_least(program):
    names = [protocol.name for protocol in program.ASKED]
    weak = dict.fromkeys(names, 1.0) | {"specific": 3.0, "kar": 9.0}
    all_of_them = [judged(program, name, z=z) for name, z in weak.items()]
    all_of_them += [judged(program, name, z=8.0, wrong=int(name == "kar")) for name in names]
    order = program.leader(all_of_them)
    assert order[0] == ("specific", 0, 0, 3.0)
    assert order[-1] == ("kar", 1, 0, 8.0)


def test_the_set_that_was_made_later_is_no_part_of_the_rule(program):
    names = [protocol.name for protocol in program.ASKED]
    everywhere = [judged(program, name, z=2.0 if name == "specific" else 1.0) for name in names]
    blind = [replace(one, suite=program.BLIND, wrong=9, z=0.0) for one in everywhere]
    assert program.leader([*everywhere, *blind])[0] == ("specific", 0, 0, 2.0)


def test_a_training_is_three_passes_and_a_common_network_is_trained_once_a_seed(program):
    suite = find_suite("planted-protocols")
    roar, specific = (program.passes(suite, protocol) for protocol in (ROAR, SPECIFIC))
    trained, tested = 3 * 4 * 1000, 2000
    assert roar == 3 * (5 + 1) * (trained + tested)  # five rows and untouched images, three seeds
    tuned = 3 * 1000
    assert specific == 3 * (trained + 5 * tuned + (1 + 2 * 5) * tested)


@pytest.mark.slow
def test_the_tables_are_those_of_the_rows_beside_them(program, tmp_path):
    assert command("import", ROOT / "docs" / "protocols.parquet", "--store", tmp_path) == 0
    with ResultsStore.open(default_url(tmp_path)) as store:
        made = program.tables(program.read(store))
        found = program.read(store)
        rate = program.seconds_a_pass(found)
        first, *_ = program.leader(
            [program.judge(each, protocol, rate) for each in found for protocol in program.ASKED]
        )
    page = (ROOT / "docs" / "protocols.md").read_text("utf-8")
    assert f"**By the rule `{first[0]}` leads**" in page
    assert between(page, program.START, program.END) == made


@pytest.mark.slow
def test_the_table_of_networks_tuned_on_test_images_masks_is_that_of_the_rows_beside_it(program, tmp_path):
    assert command("import", ROOT / "docs" / "protocols.parquet", "--store", tmp_path) == 0
    with ResultsStore.open(default_url(tmp_path)) as store:
        lent = program.read(store, [read_suite(path) for path in program.FILES])
        made = program.lent_table(lent, program.read(store))
    page = (ROOT / "docs" / "protocols.md").read_text("utf-8")
    assert between(page, program.LENT_START, program.LENT_END) == made


@pytest.mark.slow
def test_the_tables_of_photographs_are_those_of_the_rows_in_docs(agreements, tmp_path):
    for rows in ("quick-2", "quick-class", "quick-exchanged", "quick-specific"):
        assert command("import", ROOT / "docs" / f"{rows}.parquet", "--store", tmp_path) == 0
    with ResultsStore.open(default_url(tmp_path)) as store:
        made = {
            agreements.START: agreements.table(agreements.read(store)),
            agreements.CLASSES: agreements.classes(store),
            agreements.EXCHANGED: agreements.exchanged(store),
            agreements.TUNED: agreements.on_test_masks(store),
        }
    page = (ROOT / "docs" / "protocols.md").read_text("utf-8")
    for start, table in made.items():
        assert between(page, start, agreements.END) == table
    words = (ROOT / "README.md").read_text("utf-8").partition("--suite quick-class`")[2].partition("\n")[0]
    for name, row in (("GB", "gb"), ("IG", "ig"), ("Sobel", "sobel")):
        said = words.partition(f"{name} ")[2].removeprefix("has ").partition("]")[0] + "] better"
        assert f"| {row} |" in made[agreements.CLASSES] and said in made[agreements.CLASSES].partition(f"| {row} |")[2]
