"""Which references, rankings and networks a store's folder has of those that runs rest on, with their checksums."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch

from roarbench.datasets.decoded import verify_decoded
from roarbench.execution.common_networks import row_spec, tuned_key
from roarbench.execution.context import RunContext
from roarbench.execution.job_graph import Step, network_steps, rankings_needed
from roarbench.identity import fingerprint
from roarbench.plan.runs import Run
from roarbench.store.checksums import Artifact, Noted
from roarbench.store.provenance import cores
from roarbench.store.ranking_spec import RankingSpec
from roarbench.store.references import checksum
from roarbench.store.result import Result
from roarbench.terms import Split


def artifacts_for(context: RunContext, runs: list[Run]) -> Iterator[Artifact]:
    """Yield what runs rest on, whether the folder has it or not."""
    for number in sorted({context.of(run).number for run in runs if run.reference}):
        yield from _reference(context.explaining(number))
    for spec in rankings_needed(context, runs):
        yield _ranking(context, spec)
    for step in network_steps(context, runs, {}):
        yield from artifacts_of(step)


def verify_inputs(context: RunContext, runs: list[Run]) -> None:
    """Compare the images, and the rankings that there are already, with the checksums of their manifests.

    To be called once by a command, before its workers read them.

    Raises:
        StoreError: Something was altered.
    """
    todo = [partial(verify_decoded, context.decoded, split) for split in Split]
    todo += [
        partial(context.rankings.verify, spec) for spec in rankings_needed(context, runs) if context.rankings.has(spec)
    ]
    with ThreadPoolExecutor(cores()) as pool:  # hashing leaves the interpreter's lock to others
        for done in [pool.submit(each) for each in todo]:
            done.result()


def noted_by(context: RunContext, results: Iterable[Result]) -> Iterator[Noted]:
    """Yield what results say of rankings and weights that the folder has."""
    rankings: dict[RankingSpec, Artifact] = {}
    for result in results:
        run, own = result.run, context.of(result.run)
        if result.rankings:
            spec = row_spec(own, run)
            ranking = rankings.get(spec) or rankings.setdefault(spec, _ranking(own, spec))
            if ranking.checksum:
                yield Noted(run.key, ranking.what, result.rankings, ranking.checksum)
        if result.weights and own.references.has(own.reference):
            yield Noted(run.key, _title(own), result.weights, own.references.checksum(own.reference))


def artifacts_of(step: Step) -> list[Artifact]:
    """Return what a step that is over has made, of what many runs rest on."""
    context, *rest = step.job.arguments
    if step.kind == "reference":
        return list(_reference(context))
    if step.kind == "network":
        found = context.networks.checksum(rest[0].key)
        return [Artifact(rest[0].key, f"{step.job.name} of {context.suite.title}", found, rest[0].key)]
    if step.kind == "tune":
        return [_tuned(context, rest[0], step.job.name)]
    return [_ranking(context, rest[0])] if step.kind == "seal" else []


def _reference(context: RunContext) -> Iterator[Artifact]:
    """Yield the weights of a context's reference with its predictions, split by split."""
    for split in context.splits:
        key = fingerprint([context.reference.key, str(split)])
        what = f"{_title(context)} ({split} images)"
        yield Artifact(key, what, _reference_checksum(context, split), context.reference.key)


def _title(context: RunContext) -> str:
    """Return what messages call a context's reference."""
    numbered = f"reference {context.number + 1}" if context.suite.references > 1 else "reference"
    return f"{numbered} of {context.suite.title}"


def _ranking(context: RunContext, spec: RankingSpec) -> Artifact:
    """Return a ranking with the checksum of its finished files."""
    found = context.rankings.open(spec).checksum if context.rankings.has(spec) else ""
    return Artifact(spec.key, f"ranking of {spec.name} ({spec.unit})", found)


def _tuned(context: RunContext, run: Run, name: str) -> Artifact:
    """Return the network that scores a run, tuned by the step of this name on the row's rankings."""
    common, spec = context.common_network(run), row_spec(context, run)
    rankings = context.rankings.open(spec).checksum if context.rankings.has(spec) else ""
    found = context.networks.checksum(tuned_key(common, rankings))
    what = f"network ({name}) of {context.suite.title}"
    return Artifact(fingerprint(["tune", common.key, spec.key]), what, found, common.key, rankings)


def _reference_checksum(context: RunContext, split: Split) -> str:
    """Return the checksum of weights and predictions; empty where they are not there, or of unnoted weights."""
    store, reference = context.references, context.reference
    if not (store.has(reference) and store.predicted(reference, split)):
        return ""
    arrays = store.predictions(reference, split)._asdict()
    predicted = checksum({name: torch.from_numpy(array) for name, array in arrays.items()})
    return fingerprint([store.checksum(reference), predicted])
