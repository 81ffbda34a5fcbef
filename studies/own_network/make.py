"""The answers of studies.own_network.run: every network under every network's map, by experiment and row.

Run: roarbench run --suite quick --store DIR makes the five references; python -m studies.own_network.make --store DIR
--networks FOLDER adds to results.npz what it lacks, in about an hour of one core; FOLDER keeps the networks it trains.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

from roarbench import mix_maps
from roarbench.analysis.own_network_results import load_kept_predictions
from roarbench.analysis.stored_results import collect_results
from roarbench.api.removal import Removal
from roarbench.compute.inputs import normalise
from roarbench.enums import Order, Precision, Unit
from roarbench.estimators.estimator import blur
from roarbench.plan.protocols import OWN_NETWORK, OWN_NETWORK_LERF, ROAR
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_file import read_suite
from roarbench.plan.suites import find_suite
from roarbench.store.networks import compute_weights_checksum
from studies.own_network import adversaries
from studies.own_network.lab import MORF, VARIANTS, Group, Kept, Lab, keep_results, read_results, untrained
from studies.page import board, by_gain, opened, program

ROWS = ("grad", "grad-sq", "sg-grad", "sgsq-grad", "var-grad", "input-x-grad", "gb", "gb-sq", "ig(baseline=mean)",
    "gradcam", "occlusion")  # fmt: skip
TWINS = ("grad", "grad-sq", "sgsq-grad", "input-x-grad", "gb-sq", "gradcam")
MIXED = ("input-x-grad", "ig(baseline=mean)", "sgsq-grad")
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
NOISE, SEEDS, FITTED = 33, 6, 1024
STRIDE = 8  # of resnet-quick's last feature map
LERF, PIXEL = MORF._replace(order=Order.LERF), MORF._replace(unit=Unit.PIXEL)
Row = tuple[str, Callable[[], Kept]]


def attacked(lab: Lab) -> Iterator[Row]:
    """Yield maps of estimators that are made to win."""
    group = lab.group(lab.references(), 0, 300)
    for name, make in adversaries.ALL.items():
        yield name, partial(_attack, group, make)


def _attack(group: Group, make: Callable[[Group], list[Tensor]]) -> Kept:
    return group.kept(make(group))


def known_order(lab: Lab) -> Iterator[Row]:
    """Yield maps that are mixed with those of a sibling, and with another image's."""
    group, maps = lab.group(lab.references(), 0, 300), dict[str, list[Tensor]]()

    def mixed(name: str, kind: str, share: float) -> list[Tensor]:
        own = maps.get(name) or maps.setdefault(name, group.maps([name])[name])
        if kind == "image":
            return [mix_maps(one, one.roll(1, 0), share) for one in own]
        return [mix_maps(one, own[(number + 1) % len(own)], share) for number, one in enumerate(own)]

    def kept(name: str, kind: str, share: float) -> Kept:
        return group.kept(mixed(name, kind, share))

    for name, kind, share in product(MIXED, ("sibling", "image"), SHARES):
        yield f"{name}:{kind}:{share:g}", partial(kept, name, kind, share)


def meaningless(lab: Lab) -> Iterator[Row]:
    """Yield maps that depend on the network and do not explain it, each seed on other images."""
    groups = [lab.group(lab.references()[:3], 100 * number, 100 * (number + 1)) for number in range(10)]
    for seed, form in product(range(NOISE), FORMS):
        group = groups[seed % 10]
        yield f"{form}:{seed}", partial(_noise, group, form, seed)
    for seed, (variant, make) in product(range(SEEDS), TWINNED.items()):
        made, group = dict[str, list[Tensor]](), groups[seed]

        def explain(name: str, make=make, seed=seed, made=made, group=group) -> Kept:  # type: ignore[no-untyped-def]
            if not made:
                made.update(group.maps(TWINS, [make(group, number, seed) for number in range(3)]))
            return group.kept(made[name])  # type: ignore[no-any-return]

        for name in TWINS:
            yield f"{variant} {name}:{seed}", partial(explain, name)


def _noise(group: Group, form: str, seed: int) -> Kept:
    return group.kept(noise(group, form, seed))


def coarse(images: Tensor, drawn: Tensor) -> Tensor:
    """Return noise of 8 x 8 squares."""
    return drawn[:, :1, ::8, ::8].repeat_interleave(8, 2).repeat_interleave(8, 3).expand(images.shape)


FORMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "noise": lambda images, drawn: drawn,
    "noise, blurred": lambda images, drawn: blur(drawn),
    "noise, coarse": coarse,
    "noise x deviation": lambda images, drawn: drawn * images.abs(),
}


def noise(group: Group, form: str, seed: int) -> list[Tensor]:
    """Return noise that is seeded by the checksum of the network's weights."""
    made = []
    for model in group.models:
        generator = torch.Generator().manual_seed(int(compute_weights_checksum(model.state_dict())[:15], 16) + seed)
        made.append(FORMS[form](group.images, torch.rand(group.images.shape, generator=generator)))
    return made


def untrained_twin(group: Group, number: int, seed: int) -> nn.Module:
    """Return a network before training; with seed 0 the one that the reference was before its own."""
    return untrained(1000 + 2 * number if seed == 0 else 10_000 * seed + number)


def shuffled_twin(group: Group, number: int, seed: int) -> nn.Module:
    """Return a reference with the entries of each parameter permuted, its batch norms fitted again."""
    model, generator = untrained(0), torch.Generator().manual_seed(100 * seed + number)
    model.load_state_dict(group.models[number].state_dict())
    with torch.no_grad():
        for parameter in model.parameters():
            order = torch.randperm(parameter.numel(), generator=generator)
            parameter.copy_(parameter.flatten()[order].view_as(parameter))
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.reset_running_stats()
                module.momentum = None  # the mean over all batches
        model.train()
        for part in torch.split(torch.from_numpy(group.lab.data.train.pixels[:FITTED]), 128):
            model(normalise(part, group.lab.norm))
    return model.eval()


TWINNED = {"untrained": untrained_twin, "shuffled": shuffled_twin}


def varied(lab: Lab) -> Iterator[Row]:
    """Yield the estimators in the standard setting and in each other one."""
    settings: dict[str, tuple[Removal, str]] = {
        "standard": (MORF, "mean"),
        "lerf": (LERF, "mean"),
        "pixel": (PIXEL, "mean"),
        "black": (MORF, "zero"),
        "blur": (MORF, "blur"),
        "linear": (MORF, "linear"),
    }
    references = lab.references()[:3]
    yield from of_group(lambda: lab.group(references, 0, 200), settings)
    yield from of_group(lambda: lab.group(references, 0, 200), {"bf16": (MORF, "mean")}, Precision.BF16)
    for name, variant in VARIANTS.items():
        rows = tuple(row for row in ROWS if row not in variant.lacks)
        yield from of_group(partial(_varied, lab, name), {name: (MORF, "mean")}, rows=rows)


def _varied(lab: Lab, name: str) -> Group:
    return lab.group(lab.others(name), 0, VARIANTS[name].images)


def of_group(
    make: Callable[[], Group],
    settings: dict[str, tuple[Removal, str]],
    precision: Precision = Precision.FLOAT32,
    rows: tuple[str, ...] = ROWS,
) -> Iterator[Row]:
    """Yield the rows of one group of networks and images in some settings."""
    found, maps = list[Group](), dict[str, list[Tensor]]()

    def kept(name: str, setting: str) -> Kept:
        if not found:
            found.append(make())
            maps.update(found[0].maps(rows, precision=precision))  # together: noisy copies are explained once
        return found[0].kept(maps[name], *settings[setting])

    for name, setting in product(rows, settings):
        yield f"{setting}:{name}", partial(kept, name, setting)


def reasons(lab: Lab) -> Iterator[Row]:
    """Yield maps of another image with and without the part that a network's maps of all images share."""
    group, maps = lab.group(lab.references(), 0, 300), dict[str, list[Tensor]]()

    def kept(name: str, change: Callable[[Tensor, Tensor], Tensor]) -> Kept:
        own = maps.get(name) or maps.setdefault(name, group.maps([name])[name])
        return group.kept([change(one, group.targets) for one in own])

    for name, (what, change) in product(MIXED[:2], CHANGES.items()):
        yield f"{name}:{what}", partial(kept, name, change)


def others_mean(maps: Tensor) -> Tensor:
    """Return for each image the mean map of all other images."""
    return (maps.sum(0) - maps) / (len(maps) - 1)


def grid(maps: Tensor) -> Tensor:
    """Return for each place in squares of 8 x 8 pixels the mean over all squares of a map, repeated."""
    count, channels, height, width = maps.shape
    squares = maps.reshape(count, channels, height // STRIDE, STRIDE, width // STRIDE, STRIDE)
    return squares.mean((2, 4), keepdim=True).expand(squares.shape).reshape(maps.shape)


def of_its_class(maps: Tensor, targets: Tensor) -> Tensor:
    """Return for each image the map of the next image of its predicted class."""
    found = maps.clone()
    for each in torch.unique(targets):
        rows = torch.nonzero(targets == each).flatten()
        found[rows] = maps[rows.roll(-1)]
    return found


def of_another_class(maps: Tensor, targets: Tensor) -> Tensor:
    """Return for each image the map of the next image of another predicted class."""
    differ = targets[:, None] != targets
    ahead = (torch.arange(len(maps)) - torch.arange(len(maps))[:, None]) % len(maps)
    return maps[torch.where(differ, ahead, len(maps)).argmin(1)]


CHANGES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "its own, less the mean of the others": lambda maps, targets: maps - others_mean(maps),
    "another image's, less the mean of the others": lambda maps, targets: maps.roll(1, 0) - others_mean(maps),
    "another image's, less the mean, over the deviation": lambda maps, targets: (
        (maps - maps.mean(0)) / maps.std(0)
    ).roll(1, 0),
    "another image's, moved by 8 pixels": lambda maps, targets: maps.roll((1, 8, 8), (0, 2, 3)),
    "another image's, moved by 1 pixel": lambda maps, targets: maps.roll((1, 1, 1), (0, 2, 3)),
    "the mean of the others": lambda maps, targets: others_mean(maps),
    "the mean of the others, its grid of 8 x 8 pixels alone": lambda maps, targets: grid(others_mean(maps)),
    "another image's of its class": of_its_class,
    "another image's of another class": of_another_class,
}
EXPERIMENTS = {"adversary": attacked, "null": meaningless, "mixed": known_order, "order": varied, "reason": reasons}


def stored(found: dict[str, Kept], store: Path, suite: SuiteSpec, experiment: str) -> None:
    """Take over the answers that a store has of a suite, of every row with all of them."""
    with opened(store) as held:
        results = collect_results(suite, held)
    for protocol in (OWN_NETWORK, OWN_NETWORK_LERF):
        if results.suite.shared(protocol, Unit.SCALAR)[1]:
            for name, kept in load_kept_predictions(results, protocol, Unit.SCALAR)[1].items():
                found[f"{experiment} {protocol.order}/{name}"] = kept.answers
    if results.suite.shared(ROAR, Unit.SCALAR)[1]:
        file = Path(__file__).with_name("roar.json")
        gains = {name: round(row.gain.value or 0.0, 2) for name, row in by_gain(board(results, ROAR)).items()}
        known = json.loads(file.read_text()) if file.exists() else {}  # of rows that were added to the suite
        file.write_text(json.dumps(known | gains, indent=1) + "\n", "utf-8")
    keep_results(found)


def add(found: dict[str, Kept], experiment: str, rows: Iterator[Row]) -> None:
    """Add the rows of an experiment that are missing; what is made is kept every minute."""
    saved = time.monotonic()
    for name, make in rows:
        if (key := f"{experiment}/{name}") not in found:
            start = time.process_time()
            found[key] = make()
            print(f"{key}: {time.process_time() - start:.1f} core-seconds", flush=True)
        if time.monotonic() - saved > 60:
            keep_results(found)
            saved = time.monotonic()
    keep_results(found)


def parser() -> argparse.ArgumentParser:
    """Return the parser of this program."""
    made = program(__doc__)
    made.add_argument("--store", type=Path, required=True, help="a folder with the references of quick 7")
    made.add_argument("--networks", type=Path, required=True, help="a folder for more networks")
    made.add_argument("--corners", type=Path, help="a folder with the rows of levels.toml")
    made.add_argument("--only", choices=EXPERIMENTS, nargs="*", default=list(EXPERIMENTS))
    return made


def main() -> None:
    """Add what results.npz lacks."""
    arguments = parser().parse_args()
    torch.set_num_threads(1)
    found, lab = read_results(), Lab(arguments.store, arguments.networks)
    stored(found, arguments.store, find_suite("quick"), "quick")
    if arguments.corners:
        stored(found, arguments.corners, read_suite(Path(__file__).with_name("levels.toml")), "corners")
    for experiment in arguments.only:
        add(found, experiment, EXPERIMENTS[experiment](lab))


if __name__ == "__main__":
    main()
