"""Which references and rankings a store's folder has of those that runs rest on, with their checksums."""

from collections.abc import Iterator

import torch

from roarbench.execution.context import RunContext
from roarbench.execution.graph import Step, rankings_needed
from roarbench.identity import fingerprint
from roarbench.plan.runs import Run
from roarbench.store.checksums import Artifact
from roarbench.store.ranking_spec import RankingSpec
from roarbench.store.references import checksum
from roarbench.terms import Split


def artifacts_for(context: RunContext, runs: list[Run]) -> Iterator[Artifact]:
    """Yield what runs rest on, whether the folder has it or not."""
    for number in sorted({context.of(run).number for run in runs if run.reference}):
        yield from _reference(context.explaining(number))
    for spec in rankings_needed(context, runs):
        yield _ranking(context, spec)


def artifacts_of(step: Step) -> list[Artifact]:
    """Return what a step that is over has made, of what many runs rest on."""
    context, *rest = step.job.arguments
    if step.kind == "reference":
        return list(_reference(context))
    return [_ranking(context, rest[0])] if step.kind == "seal" else []


def _reference(context: RunContext) -> Iterator[Artifact]:
    """Yield the weights of a context's reference with its predictions, split by split."""
    numbered = f"reference {context.number + 1}" if context.suite.references > 1 else "reference"
    for split in context.splits:
        key = fingerprint([context.reference.key, str(split)])
        what = f"{numbered} of {context.suite.title} ({split} images)"
        yield Artifact(key, what, _reference_checksum(context, split), context.reference.key)


def _ranking(context: RunContext, spec: RankingSpec) -> Artifact:
    """Return a ranking with the checksum of its finished files."""
    found = context.rankings.open(spec).checksum if context.rankings.has(spec) else ""
    return Artifact(spec.key, f"ranking of {spec.name} ({spec.unit})", found)


def _reference_checksum(context: RunContext, split: Split) -> str:
    """Return the checksum of weights and predictions; empty where they are not there, or of unnoted weights."""
    store, reference = context.references, context.reference
    if not (store.has(reference) and store.predicted(reference, split)):
        return ""
    arrays = store.predictions(reference, split)._asdict()
    predicted = checksum({name: torch.from_numpy(array) for name, array in arrays.items()})
    return fingerprint([store.checksum(reference), predicted])
