"""Change a suite: select a part, add estimators, and set the fill, the unit and the explained networks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from roarbench.common.enums import FEWEST_NETWORKS, ScoredNetwork, Unit
from roarbench.common.errors import CallerError, UnknownName
from roarbench.estimators.catalogue import (
    ESTIMATORS,
    find_estimator,
    map_row_names_to_ids,
    refuse_name_of_several_submissions,
    split_estimator_ids,
)
from roarbench.estimators.ids import EstimatorId, make_twin_id
from roarbench.plan.cells_and_runs import PUBLISHED_WEIGHTS, make_weights_title
from roarbench.plan.protocols import MASK_ONLY, Protocol, find_protocol
from roarbench.plan.settings import Settings
from roarbench.plan.suite import (
    Block,
    RemovalChanges,
    SuiteSpec,
    find_displayed_fill_name,
    find_recorded_fill_name,
    refuse_impossible_cells,
)
from roarbench.plan.suites import SUITE_VERSIONS


def apply_selection_options(suite: SuiteSpec, settings: Settings, submissions: Iterable[str] = ()) -> SuiteSpec:
    """Select the part of a suite to run; controls, and `submissions` with their twins, are always selected."""
    estimators, seeds, protocol = settings.estimators, settings.seeds, settings.protocol
    networks = len(suite.given.split(","))
    if seeds is not None and seeds < networks:
        seen = f"--seeds is {seeds}, and the number of explained networks is {networks}"
        raise CallerError(f"{seen}; each network needs its own seed, so use --seeds {networks} or more")
    suite = add_submissions_and_estimators(suite, estimators, submissions)
    chosen, rows = parse_estimators_option(suite, estimators) or (), None
    if estimators is not None:
        kept = {*chosen, *suite.added}
        rows = [record.id for record in suite.estimator_records if record.is_control_to_beat or record.id in kept]
    selected = find_protocol(protocol) if protocol else None
    names = dict.fromkeys(block.protocol.name for block in suite.blocks)
    if protocol and protocol not in names:
        raise CallerError(f"suite '{suite.name}' has no {protocol}; it has: {', '.join(names)}")
    return select_part_of_suite(suite, rows, seeds, selected)


def select_part_of_suite(
    suite: SuiteSpec,
    estimators: Iterable[str] | None = None,
    seeds: int | None = None,
    protocol: Protocol | None = None,
) -> SuiteSpec:
    """Return the part of a suite with these estimators and this protocol, and with `seeds` seeds of trained networks.

    None selects all estimators, the suite's own number of seeds, or all protocols.
    """
    names = suite.estimators if estimators is None else tuple(estimators)
    blocks = []
    for block in (block for block in suite.blocks if protocol in (None, block.protocol)):
        rows = tuple(name for name in block.estimators if name in names)
        blocks.append(replace(block, estimators=rows, seeds=seeds if seeds and block.protocol.trains else block.seeds))
    selected = tuple(block for block in blocks if block.estimators)
    # keep only explained networks that a seed uses, but keep all if every network is scored under every network's maps
    scores_all_network_pairs = any(block.protocol.scores_all_network_pairs for block in selected)
    max_references = suite.references if scores_all_network_pairs else seeds or suite.references
    return replace(suite, blocks=selected, references=min(suite.references, max_references))


def set_allowed_fill_and_unit(suite: SuiteSpec, fill: str = "", unit: Unit | None = None) -> SuiteSpec:
    """Return a suite with this fill and unit in all blocks; an empty string or None keeps the blocks' own.

    If a protocol already has blocks with this fill and unit, only these blocks stay. Protocols that do not allow the
    fill or the unit are left out, and the title names them; if none is left, raise CallerError.
    """
    fill, reasons, blocks = find_recorded_fill_name(fill) if fill else "", dict[str, str](), dict[Block, None]()
    existing = {(block.protocol, block.unit, block.fill) for block in suite.blocks}
    for block in suite.blocks:
        has_fill = block.protocol.retrain is not ScoredNetwork.MASKS  # masks have no fill
        changed = replace(block, fill=fill if fill and has_fill else block.fill, unit=unit or block.unit)
        try:
            refuse_impossible_cells(changed, suite.dataset_record.tabular)
        except CallerError as error:
            reasons[changed.protocol.name] = str(error)
            continue
        if changed == block or (changed.protocol, changed.unit, changed.fill) not in existing:
            blocks[changed] = None
    if reasons and all(block.protocol.retrain is ScoredNetwork.MASKS for block in blocks):
        raise CallerError(f"suite '{suite.name}': {next(iter(reasons.values()))}")
    if tuple(blocks) == suite.blocks:
        return suite
    changes = RemovalChanges(find_displayed_fill_name(fill) if fill else "", unit, tuple(reasons))
    return replace(suite, blocks=tuple(blocks), changes=changes)


def find_unit(name: str) -> Unit:
    """Return the unit of this name; raise UnknownName if there is no such unit."""
    if name not in list(Unit):
        raise UnknownName("unit", name, Unit)
    return Unit(name)


def add_submissions_and_estimators(
    suite: SuiteSpec, estimators: Sequence[str] | None, submissions: Iterable[str] = ()
) -> SuiteSpec:
    """Add submissions and the estimators of `--estimators` to a suite."""
    added = []
    for name in _split_names(estimators):  # only `--submission` adds submissions
        parsed = EstimatorId.parse(name)
        row = ESTIMATORS.get(parsed.name.strip())
        if not parsed.submitted and row is not None and ("(" in name or row.addable):
            added.append(find_estimator(name).id)
    return add_estimators_with_twins(suite, [*submissions, *added])


def add_estimators_with_twins(suite: SuiteSpec, ids: Iterable[str]) -> SuiteSpec:
    """Add estimators that a suite does not have, with their twins.

    A new estimator is added to each block that has Random, and to mask-only blocks. An estimator that explains a
    network gets the kinds of twins that other estimators have in the block. If the suite already has a row of the
    estimator with default parameters, a row with other parameters is added only to the blocks of the default row, and
    gets the kinds of twins that the default row has there.

    The suite's name, its version and the keys of its runs stay the same.
    """
    # the id of a twin, or of a twin's twin, stands for its estimator; the estimator's twins are added below
    roots = (replace(EstimatorId.parse(name), twins=()) for name in ids)
    own, blocks = {*suite.estimators}, []
    names = tuple(name for name in dict.fromkeys(map(str, roots)) if name not in own)
    for block in suite.blocks:
        rows = dict.fromkeys(block.estimators)
        twins = [row for row in map(find_estimator, block.estimators) if row.twin and not row.control]
        for name in names:
            estimator = find_estimator(name)
            default_id = str(estimator.parsed_id.without_parameters)
            if estimator.addable and (estimator.submitted or default_id not in own):
                belongs = "random" in block.estimators or block.protocol is MASK_ONLY
                kinds = [row.twin for row in twins if not estimator.control]
            else:
                belongs = default_id in block.estimators
                kinds = [row.twin for row in twins if row.id_without_last_twin == default_id]
            rows |= dict.fromkeys((*[name] * belongs, *(make_twin_id(name, kind) for kind in kinds)))
        blocks.append(replace(block, estimators=tuple(rows)))
    joined = replace(suite, blocks=tuple(blocks))
    return replace(joined, added=suite.added | (set(joined.estimators) - own))


def parse_estimators_option(suite: SuiteSpec, estimators: Sequence[str] | None) -> list[str] | None:
    """Return the ids in `--estimators`, or None if it selects all; raise CallerError if the suite lacks an id."""
    listed = _split_names(estimators)
    if estimators and not listed:
        seen = f"--estimators '{','.join(estimators)}' has no ids"
        raise CallerError(f"{seen}; write ids separated by commas, or leave the option out")
    ids = map_row_names_to_ids(suite.estimators)
    for name in listed:
        refuse_name_of_several_submissions(name, suite.estimators)
    chosen = [find_estimator(ids.get(name, name), suite.estimators).id for name in listed]
    for estimator in chosen:
        if why := suite.explain_inapplicable(estimator):
            raise CallerError(f"suite '{suite.name}' has no '{estimator}': {why}")
        if estimator not in suite.estimators:
            raise CallerError(f"suite '{suite.name}' has no '{estimator}'; it has: {', '.join(suite.estimators)}")
    return chosen or None


def _split_names(estimators: Sequence[str] | None) -> list[str]:
    return [part.strip() for listed in estimators or () for part in split_estimator_ids(listed) if part.strip()]


def set_explained_networks(suite: SuiteSpec, references: Sequence[str], known_titles: Sequence[str] = ()) -> SuiteSpec:
    """Return a suite whose explained networks have these weights; return the suite itself if there are none.

    Each of `references` is a string that `make_weights_title` accepts, or the unique start of one of `known_titles`.
    This function does not read files of weights; later, the job that reads a file checks that it fits the network.
    """
    if suite.networks and references:
        seen = f"suite '{suite.name}' already specifies its explained networks"
        change = "change networks in its file, or " if suite.own else ""
        raise CallerError(f"{seen}; {change}leave --reference out")
    names: dict[str, str] = {}
    for reference in references:
        matching = [title for title in known_titles if title.startswith(reference)] if "@" in reference else []
        given = matching[0] if len(matching) == 1 else make_weights_title(reference)
        if given in names:
            raise CallerError(f"--reference {reference} has the weights of {names[given]}; name each network once")
        name, record = given.partition("@")[0], suite.dataset_record
        known, wanted = PUBLISHED_WEIGHTS.get(name), (suite.model, record.classes, record.channels)
        if known and known[1:] != wanted:
            seen = f"{name} is a {known.model} with {known.classes:,} classes"
            needed = f"but suite '{suite.name}' has a {suite.model} with {record.classes:,}"
            raise CallerError(f"{seen}, {needed}; use weights of that network, or leave --reference out")
        names[given] = reference
    sibling_protocols = [block.protocol.name for block in suite.blocks if block.protocol.scores_all_network_pairs]
    if sibling_protocols and 0 < len(names) < FEWEST_NETWORKS:
        seen = f"suite '{suite.name}' compares networks with each other ({sibling_protocols[0]})"
        raise CallerError(f"{seen}, but --reference names only {len(names)}; name {FEWEST_NETWORKS} or more")
    return set_explained_weights(suite, ",".join(names)) if names else suite


def set_explained_weights(suite: SuiteSpec, given: str) -> SuiteSpec:
    """Return a suite that explains a network with each of these weights and has at least one seed for each.

    An empty `given` selects the networks that the suite trains.
    """
    if given == suite.given or suite.networks:  # the weights of `networks` cannot be replaced
        return suite
    default = suite.own or SUITE_VERSIONS.get((suite.name, suite.version), suite)
    references = len(given.split(",")) if given else default.references
    trained = [block.seeds for block in suite.blocks if block.protocol.trains]
    blocks = tuple(
        replace(block, seeds=references) if max(trained, default=0) == block.seeds < references else block
        for block in suite.blocks
    )
    return replace(suite, given=given, references=references, blocks=blocks)
