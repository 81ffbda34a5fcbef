"""The report of a part of a suite: two seeds of `quick-roar` on few images, with `ig` and a submission."""

import re
import shlex
from dataclasses import replace
from html import unescape
from itertools import pairwise
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from leaderboard.figures import make_estimator_curves
from leaderboard.render import load_templates
from leaderboard.suite_report import describe_accuracies_of_explained_networks, render_report
from leaderboard.suite_view import SuiteView
from roarbench.analysis.load_results import load_suite_results
from roarbench.common.enums import Unit
from roarbench.estimators.catalogue import PAPER_IDS
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import MORF, OWN_NETWORK, ROAR
from roarbench.plan.settings import Settings
from roarbench.plan.suite import Block, CustomSuite
from roarbench.plan.suite_changes import (
    add_estimators_with_twins,
    apply_selection_options,
    set_allowed_fill_and_unit,
)
from roarbench.plan.suites import SUITES
from roarbench.report.descriptions_and_repeat_commands import (
    collect_papers_and_settings,
    list_report_commands,
    make_repeat_command,
)
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.user_files import store_submission
from roarbench.submissions.submission_file import parse_submission
from tests.helpers.board_store import results
from tests.helpers.store_rows import remove_rows

LIMIT, SEEDS = 400, 2
SUBMISSION = parse_submission(b"""
NAME = "my-estimator"
DESCRIPTION = "the gradient of noisy copies"
AUTHORS = "A. Author and B. Author"
PAPER = "A. Author and B. Author: Noise helps & hinders. arXiv:2601.00001"


class Noisy:
    samples = 4
    noise = 0.1

    def __call__(self, model, images, targets, generator):
        return images


estimate = Noisy()
""")


def select(suite, estimators, submissions=(), seeds=None, protocol=""):
    settings = Settings(estimators=estimators, seeds=seeds, protocol=protocol)
    return apply_selection_options(SUITES[suite], settings, submissions)


def write_part(folder, part):
    """Write a store with all results of a part of a suite, on few images; returns the folder."""
    untouched = Block(MORF, (), (), seeds=1)  # scores the explained networks
    with ResultsStore.open(make_default_url(folder)) as store:
        store_submission(store.database, SUBMISSION)
        store.add_results(results(replace(part, blocks=(*part.blocks, untouched)), images=60, limit=LIMIT).values())
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_part(tmp_path_factory.mktemp("part"), select("quick-roar", ["ig"], [SUBMISSION.id], SEEDS))


@pytest.fixture(scope="module")
def report(folder):
    """The text of the report, without tags."""
    return read_report(folder, "quick-roar")


def read_report(folder, suite):
    html = render_report(SuiteView(load(folder, suite), folder))
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def load(folder, suite):
    return load_suite_results(SUITES[suite], Settings(folder, limit=LIMIT))


def test_report_commands_run_the_reported_results(folder, report, call, tmp_path):
    run, command = list_report_commands(load(folder, "quick-roar"))
    options = "--max-images 400 --estimators ig --seeds 2 --submission my_estimator.py"
    assert run == f"roarbench run --suite quick-roar {options}"
    broken = run.replace(" --", " \\ --")  # a long command continues on further lines
    assert f"{broken} {command}" in report and "\\" not in f"{run}{command}"
    words = [tmp_path / "report.html" if word == "report.html" else word for word in shlex.split(command)[1:]]
    answer = call(*words, "--store", folder)
    assert answer.code == 0, answer.err


@pytest.fixture(scope="module")
def own_network_folder(tmp_path_factory):
    part = select("quick", ["grad", "ig"], [SUBMISSION.id], None, "own-network")
    return write_part(tmp_path_factory.mktemp("own-network"), part)


def test_report_commands_name_protocols_with_results(own_network_folder):
    """A run of one protocol is repeated by one command, without seeds, which pairs of networks do not have."""
    run, _ = list_report_commands(load(own_network_folder, "quick"))
    options = "--max-images 400 --protocol own-network --estimators grad,ig --submission my_estimator.py"
    assert run == f"roarbench run --suite quick {options}"


def test_report_commands_select_images_networks_fill_and_submissions_without_sandbox(folder):
    found = load(folder, "quick-roar")
    whole = set_allowed_fill_and_unit(SUITES["quick-roar"], "black")
    ran = dict.fromkeys(list_planned_runs(whole))
    options = ("--data", "da7ada7a", "--reference", "torchvision:resnet50-v1@0676ba61", "--reference", "file@ab12")
    given = replace(found, suite=whole, results=ran, limit=None, options=options)
    run, command = list_report_commands(given)
    selected = "--suite quick-roar --fill black"
    assert run == f"roarbench run {selected} --data DIR --reference torchvision:resnet50-v1 --reference FILE"
    assert make_repeat_command(given, "ig") == f"{run} --estimators ig --store NEW-FOLDER"
    own = replace(given, suite=replace(whole, own=CustomSuite((), 1)))
    assert make_repeat_command(own, "ig").startswith("roarbench run --suite SUITE.toml --fill black --data DIR ")
    assert command == f"roarbench report {selected} {shlex.join(options)} -o report.html"

    trusted = f"{SUBMISSION.id_without_parameters}(samples=8)~trusted"
    ran = dict.fromkeys(list_planned_runs(select("quick-roar", ["random"], [SUBMISSION.id, trusted])))
    both = add_estimators_with_twins(SUITES["quick-roar"], [SUBMISSION.id, trusted])
    first, second, _ = list_report_commands(replace(found, suite=both, results=ran))
    assert first.endswith("--estimators random --submission my_estimator.py")
    assert second.endswith("--estimators random --submission 'my_estimator.py(samples=8)' --trust-submission")


def test_report_commands_fit_a_line_of_paper_and_stay_commands(folder):
    """The estimators of a long list are given by several options, each of which fits."""
    many = select("quick-roar", PAPER_IDS)
    ran = dict.fromkeys(list_planned_runs(many))
    run, _ = list_report_commands(replace(load(folder, "quick-roar"), suite=many, results=ran))
    lists = [value for option, value in pairwise(shlex.split(run)) if option == "--estimators"]
    assert len(lists) > 1 and max(map(len, lists)) <= 70
    again = select("quick-roar", ",".join(lists).split(","))
    assert {point.cell.estimator for point in list_planned_runs(again)} == {point.cell.estimator for point in ran}


def test_methods_count_rows_and_networks_with_results(report):
    """Three of the suite's rows and one of its networks have no results."""
    assert "2 estimators and 2 controls were compared by ROAR gain over Random" in report
    assert "2 networks (resnet-quick) trained on 400 images of imagenette64-1000 were explained. " in report
    ((networks, of),) = re.findall(r"(\d+) explained networks: ([^;]*) are classified correctly", report)
    assert int(networks) == of.count(" %") == 2 and of.endswith(" of 60 test images")
    assert "references" not in report.partition("Methods")[2].partition("95% intervals")[0]


def test_report_says_that_networks_are_near_chance():
    network = SimpleNamespace(correct=17, total=100)
    results = SimpleNamespace(references={0: network}, reference_doubt="near chance", chance_text="10.0%")
    expected = "Explained network: 17.0 % of 100 test images are classified correctly (near chance of 10.0%)."
    assert describe_accuracies_of_explained_networks(results) == expected


def test_bibtex_has_each_paper_of_run_rows_once(report):
    """The suite, the paper, Sobel and Integrated Gradients; `grad` and `var-grad` were not run."""
    first = ["roarbench-quick-roar-v1-small-400", "hooker2019benchmark"]
    keys = re.findall(r"@\w+\{([^,]+),", report)
    assert keys[:2] == first and sorted(keys[2:]) == ["sobel1968isotropic", "sundararajan2017axiomatic"]


def test_settings_of_estimators_and_submissions(report):
    """The defaults of the submission's file are stated, too."""
    settings = report.partition("Settings")[2].partition("Doubts")[0]
    own = f"samples 4; noise 0.1; submitted file, sha256 {SUBMISSION.sha256}"
    named = f"my-estimator submission {SUBMISSION.sha256[:8]} by A. Author and B. Author"
    assert f"{named} : {own}" in settings.replace("Author:", "Author :")
    assert "Integrated Gradients from black : steps 25: number of points on the path" in settings
    assert "VarGrad" not in settings


def test_settings_of_submission_with_other_values():
    name, other = f"{SUBMISSION.id_without_parameters}(samples=8)", SUBMISSION.replace_parameters("samples=8")
    found = collect_papers_and_settings(name, [SimpleNamespace(submissions={name: other})])
    assert found.settings == ("samples 8", "noise 0.1") and found.authors == "A. Author and B. Author"


def test_doubt_names_estimator_that_was_not_run_under_own_network_gain(own_network_folder):
    """The untouched images were scored; without them, they are missing."""
    found = load(own_network_folder, "quick")
    levels = found.suite.list_protocol_rows_and_levels(OWN_NETWORK, Unit.SCALAR)[1]
    missing = f"No rank: no result yet of var-grad at t = {', '.join(f'{t:g}' for t in levels)}."
    unscored = remove_rows(found, estimator=CLEAN)
    nothing = "No rank: no result yet of the untouched images at t = 0."
    for stored, name, said in ((found, "var-grad", missing), (unscored, "grad", nothing)):
        board = SuiteView(stored, own_network_folder).get_board(OWN_NETWORK)
        assert board.rows_by_id[name].doubts[0].sentence == said


def test_figures_name_the_controls_and_dash_random(folder, report):
    assert report.count("test accuracy, %. Grey: Random (dashed), Sobel edges.") == 2
    assert "Integrated Gradients from black · test accuracy" in report
    table = SuiteView(load(folder, "quick-roar"), folder).table(ROAR)
    figure = make_estimator_curves(table, "ig")
    svg = load_templates().get_template("curves.svg").render(f=figure)
    lines = ElementTree.fromstring(svg.strip()).iter("{http://www.w3.org/2000/svg}polyline")
    assert [line.get("class") for line in lines] == ["random", None, "own"]
    (random,) = (row for row in table.board.rows if row.estimator == "random")
    assert [at for _, at in figure.curves[0][1:]] == [accuracy.in_points for accuracy in random.accuracies]
    alone = replace(table, board=replace(table.board, rows=tuple(r for r in table.board.rows if r.estimator == "ig")))
    assert make_estimator_curves(alone, "ig").legend == ""
