"""What of a step is leased before it is done, and how one sees that another process has done it."""

from roarbench.estimators.engine import EXPLAINED
from roarbench.execution.job_graph import Step
from roarbench.execution.shards import explained_groups
from roarbench.identity import fingerprint
from roarbench.plan.common import tuned_key
from roarbench.store.leases import Wanted


def wanted(step: Step, data: str) -> Wanted:
    """Return what is leased for a step on the data of this fingerprint.

    For images that are ranked these are the batches, which are the same however a machine divides them into jobs.
    """
    first, *rest = step.job.arguments
    if step.run:
        return Wanted((step.run.key,), "", data)
    if step.kind == "reference":
        keys = [first.reference.key]
    elif step.kind == "rank":
        specs, split, start, stop = rest
        groups = explained_groups(specs)
        keys = [_key("rank", data, group, split, at) for group in groups for at in range(start, stop, EXPLAINED)]
    elif step.kind == "seal":
        keys = [_key("seal", rest[0].key)]
    elif step.kind == "network":
        keys = [rest[0].key]
    else:
        common, row, _ = rest
        keys = [_key("tune", common.key, row.key)]
    return Wanted(tuple(keys), step.job.name, data)


def is_made(step: Step) -> bool:
    """Return whether the output of a step that is no run, and that can start now, is in the store's folder."""
    first, *rest = step.job.arguments
    if step.kind == "reference":
        return bool(first.made)
    if step.kind == "rank":
        specs, *images = rest
        return all(first[0].place.rankings.has_file(spec, *images) for spec in specs)
    if step.kind == "seal":
        return bool(first.rankings.has(rest[0]))
    if step.kind == "network":
        return bool(first.stored(rest[0].key).has())
    if step.kind != "tune":
        return False
    common, row, _ = rest  # whose rankings are finished
    return bool(first.stored(tuned_key(common.key, first.rankings.open(row).checksum)).has())


def _key(*parts: object) -> str:
    return fingerprint([str(part) for part in parts])
