"""Infer the `PlanEntry` of a run that a version without plan entries stored."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from roarbench.common.enums import ScoredNetwork, Unit
from roarbench.common.errors import CallerError, RemovedName
from roarbench.plan.cells_and_runs import CLEAN, Cell, Run
from roarbench.plan.plan_entry import PlanEntry, make_plan_entry
from roarbench.plan.planned_runs import (
    PlannedRun,
    find_protocol_name,
    find_second_network_key,
    list_clean_runs_of_explained_networks,
    list_planned_runs,
    make_reference_spec,
)
from roarbench.plan.suite import MAX_COMPARED_NETWORKS, SEEDS_PER_REPLICATION, SuiteSpec
from roarbench.plan.suite_changes import add_estimators_with_twins, set_explained_weights
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import RunResult
from roarbench.store.user_files import list_all_suites


def infer_plan_entry(store: ResultsStore, stored: RunResult, weight_titles: Iterable[str]) -> PlanEntry:
    """Return the entry of a run that an earlier version stored without one.

    Several suites share a run, but differ in what an entry has: the number of explained networks, the recipe that
    trained them, and the levels and splits of rankings. The suite that plans most of the stored runs with this run's
    rankings is taken, and of it the protocols of these runs. Among equal suites, one that specifies the run's weights
    is preferred, as it ranks fewer images.
    """
    run = stored.run
    found = list(_list_suites_that_can_have_run(store, run, weight_titles))
    if not found:
        if run.cell.retrain is ScoredNetwork.EXCHANGED:
            raise RemovedName("protocol", find_protocol_name(run.cell))
        advice = "add --reference FILE for each of its given networks, or " if run.given else ""
        seen = f"no suite of this version has the run {run.key}"
        raise CallerError(f"{seen}; {advice}use the version of roarbench that stored it")
    same = store.read_results(store.list_keys_with_rankings(stored.rankings)) if stored.rankings else {}
    cells = {_drop_fill_and_unit(cell) for cell in (run.cell, *(result.run.cell for result in same.values()))}
    name = run.cell.estimator
    row_runs = ([each for each in list_planned_runs(suite) if each.cell.estimator == name] for suite in found)
    planned = [{_drop_fill_and_unit(each.cell) for each in runs} for runs in row_runs]
    # of suites that plan equally many of the stored runs, the one with the fewest others
    fits = [(len(cells & row), -len(row)) if _drop_fill_and_unit(run.cell) in row else (0, 0) for row in planned]
    best = found[fits.index(max(fits))]
    if stored.rankings and max(fits) != (0, 0):
        asked = {(cell.order, cell.retrain) for cell in cells}
        blocks = (block for block in best.blocks if (block.protocol.order, block.protocol.retrain) in asked)
        best = replace(best, blocks=tuple(blocks))
    return make_plan_entry(best, run)


def _list_suites_that_can_have_run(store: ResultsStore, run: Run, weight_titles: Iterable[str]) -> Iterator[SuiteSpec]:
    """Yield the suites with the run's data set, networks and kind of scored network, with the run's row added."""
    stored = (given for *_, given in store.read_seeds_and_removals_by_version(run.cell.dataset, run.cell.model))
    titles = [given for given in dict.fromkeys((*weight_titles, *stored)) if given]
    row = [run.cell.estimator] if run.cell.estimator != CLEAN else []
    for suite in sorted(list_all_suites(store.database), key=lambda suite: suite.given != run.given):
        repeated = replace(suite, replication=run.seed // SEEDS_PER_REPLICATION)
        repeated = replace(_set_weights_of_run(repeated, run, titles), maps=run.maps) if run.reference else repeated
        explained = make_reference_spec(repeated, run.data, repeated.find_explained_number(run.cell, run.seed))
        recipe = suite.recipe if run.cell.retrain.trains else explained.recipe
        is_same_cell = (suite.dataset, suite.model, recipe) == (run.cell.dataset, run.cell.model, run.recipe)
        # a suite scores its explained networks on untouched images even if no protocol lists these runs
        scores_reference = run.cell == list_clean_runs_of_explained_networks(suite)[0].cell
        has_protocol = scores_reference or run.cell.retrain in {block.protocol.retrain for block in suite.blocks}
        network = find_second_network_key(repeated, PlannedRun(run.cell, run.seed), run.data)
        if is_same_cell and has_protocol and run.reference in ("", explained.key) and run.network == network:
            yield add_estimators_with_twins(repeated, row)


def _drop_fill_and_unit(cell: Cell) -> Cell:
    """Return the cell with the fill and unit of most suites; options change both."""
    return replace(cell, fill="mean", unit=Unit.SCALAR)


def _set_weights_of_run(suite: SuiteSpec, run: Run, titles: Iterable[str]) -> SuiteSpec:
    """Return a suite that explains the run's network and, if weights are given, has the network that the run scores.

    The result has as few networks as the run's seed needs. A suite with its own `networks` keeps them.
    """
    explaining = set_explained_weights(suite, run.given)
    if suite.networks:
        return explaining
    keys = {title: make_reference_spec(replace(suite, given=title), run.data).key for title in titles}
    scored_title = next((title for title, key in keys.items() if key == run.network), "")
    if not scored_title:
        return explaining
    wider = (replace(explaining, references=count) for count in range(2, MAX_COMPARED_NETWORKS + 1))
    smallest = next(suite for suite in wider if len(list_network_numbers(suite, run)) == 2)
    given = [run.given] * smallest.references
    given[smallest.find_scored_number(run.cell, run.seed)] = scored_title
    return replace(smallest, given=",".join(given))


def list_network_numbers(suite: SuiteSpec, run: Run) -> list[int]:
    """Return the numbers of the networks that a run needs: the explained network and the scored network."""
    scored = () if run.cell.retrain.trains else (suite.find_scored_number(run.cell, run.seed),)
    return list(dict.fromkeys((suite.find_explained_number(run.cell, run.seed), *scored)))
