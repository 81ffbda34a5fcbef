"""The blind search: lengths, what it finds, and what it cannot know."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from roarbench.estimators.catalogue import count_passes, find_estimator, find_search
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.estimator import SEED, Batch, MapInput
from roarbench.estimators.families.search import search_by_length
from roarbench.estimators.random_draws import RngStream, make_rng
from tests.helpers.networks import importance
from tests.helpers.trainings import seeded

LENGTHS = (2, 7, 40)


def make_batch(model, images=30, side=8):
    drawn = torch.randn(images, 2, side, side, generator=seeded(1), dtype=torch.float64) + 0.3
    return Batch(drawn, model(drawn).argmax(1), torch.arange(images))


class Brightness(nn.Module):
    """Class 1 if the pixels of one corner are brighter than a threshold, on average."""

    def __init__(self, corner=slice(0, 3)):
        super().__init__()
        self.corner = corner

    def forward(self, images):
        value = images[:, :, self.corner, self.corner].mean((1, 2, 3)) - 0.02
        return torch.stack([-value, value], 1)


class Deaf(nn.Module):
    """A network that ignores its input."""

    def forward(self, images):
        return images.new_tensor([0.0, 1.0]).expand(len(images), 2)


def remove_top(batch, maps, level):
    count = round(level * maps[0].numel())
    removed = torch.zeros_like(maps.flatten(1), dtype=torch.bool)
    removed.scatter_(1, maps.flatten(1).argsort(1, descending=True)[:, :count], True)
    return batch.images.masked_fill(removed.view_as(maps), 0)


def test_shorter_search_is_beginning_of_longer_one():
    model = Brightness().eval()
    batch = make_batch(model)
    names = [f"search(passes={length}{order})" for length in LENGTHS for order in ("", ",order=lerf")]
    together = compute_importance_maps([find_estimator(name) for name in names], model, batch, torch.zeros(2, 1, 1))
    for name in names:
        torch.testing.assert_close(together[name], importance(name, model, batch), rtol=0, atol=0)
    assert len({maps.numpy().tobytes() for maps in together.values()}) == len(names)


def search_slowly(model, batch, row, length):
    """Search one image on whole maps, by the docstring of `search_by_length`."""
    image, target, rng = batch.images[row], batch.targets[row], make_rng(SEED, RngStream.SEARCH, row)
    counts = [round(level * image.numel()) for level in (0.05, 0.5)]
    best, lowest, finished = [torch.zeros_like(image)] * 2, [torch.inf] * 2, [False] * 2

    def change(mask):
        changed = best[mask] + 1.5 / max(1, number // 2) ** (1 / 3) * noise
        return changed / changed.std(correction=0)

    for number in range(length + 1):
        if not all(finished):
            cells = torch.from_numpy(rng.standard_normal((len(image), 6, 6), np.float32)).double()
            noise = F.interpolate(cells[None], image.shape[1:], mode="bilinear")[0]
            noise = noise / noise.std(correction=0)
        if number < length and not all(finished):
            mask = 1 - number % 2 if finished[number % 2] else number % 2
            tested = changed = change(mask)
            if mask == 1:
                tested = changed.masked_fill(mark_top(best[0], counts[0]), torch.inf)
            logits = model(image.masked_fill(mark_top(tested, counts[mask]), 0)[None])[0]
            probability, finished[mask] = logits.softmax(0)[target], logits.argmax() != target
            if finished[mask] or probability < lowest[mask]:
                best[mask], lowest[mask] = changed, probability
    smaller, larger = (best[mask] if finished[mask] else change(mask) for mask in range(2))
    return torch.where(mark_top(smaller, counts[0]), smaller + 1 + larger.max() - smaller.min(), larger)


def search_slowly_in_lerf_order(model, batch, row, length):
    """Search one image on whole maps, by the docstring of `search_by_length`; a mask is None until it is found."""
    image, target, rng = batch.images[row], batch.targets[row], make_rng(SEED, RngStream.SEARCH, row)
    counts = [round(level * image.numel()) for level in (0.05, 0.5)]
    best, masks, probabilities = [torch.zeros_like(image)] * 2, [None, None], [0.0, 0.0]

    def change(mask):
        changed = best[mask] + 1.5 / max(1, number // 2) ** (1 / 3) * noise
        return changed / changed.std(correction=0)

    def mark(mask, values):
        if mask == 0:
            values = torch.where(masks[1], values, -torch.inf)
        elif masks[0] is not None:
            values = torch.where(masks[0], torch.inf, values)
        return mark_top(values, counts[mask])

    for number in range(length + 1):
        cells = torch.from_numpy(rng.standard_normal((len(image), 6, 6), np.float32)).double()
        noise = F.interpolate(cells[None], image.shape[1:], mode="bilinear")[0]
        noise = noise / noise.std(correction=0)
        if number < length:
            mask = 1 if masks[1] is None else number % 2
            changed = change(mask)
            removed = mark(mask, changed)
            logits = model(image.masked_fill(removed, 0)[None])[0]
            probability, kept = logits.softmax(0)[target], logits.argmax() == target
            sooner = masks[mask] is None and (kept or probability > probabilities[mask])
            if sooner or (kept and probability < probabilities[mask]):
                best[mask], probabilities[mask] = changed, probability
                masks[mask] = removed if kept else None
    rest = best[1] if masks[1] is not None else change(1)
    for mask in (1, 0):
        masks[mask] = mark(mask, rest if mask else change(0)) if masks[mask] is None else masks[mask]
    return torch.sigmoid(-rest) - masks[1].double() - masks[0].double()


def mark_top(values, count):
    return values >= values.flatten().sort().values[-count]


@pytest.mark.parametrize(("order", "slowly"), [("morf", search_slowly), ("lerf", search_slowly_in_lerf_order)])
@pytest.mark.parametrize("length", LENGTHS)
def test_search_on_grids_equals_search_on_whole_maps(length, order, slowly):
    model = Brightness().eval()
    batch = make_batch(model, images=6, side=9)
    found = importance(f"search(passes={length},order={order})", model, batch)
    torch.testing.assert_close(found, torch.stack([slowly(model, batch, row, length) for row in range(6)]))


def test_searches_for_morf_order_are_those_of_published_rows():
    """`order` came later; its default is not in the hash, as the published `search` and its 128 passes show."""
    hashes = [find_estimator(name).fingerprint for name in ("search", "search(passes=32,order=morf)")]
    assert hashes == ["97c0514a10dbd96817d571165062ac26"] * 2
    assert find_estimator("search(order=lerf)").fingerprint != hashes[0]


def test_searches_of_one_network_take_passes_of_longest():
    rows = [find_estimator(f"search(passes={length})") for length in LENGTHS]
    assert count_passes(rows) == (40, 0)
    for other in ("search(passes=50,baseline=black)", "search(passes=50,order=lerf)"):
        assert count_passes([*rows, find_estimator(other)]) == (90, 0)
    assert {row.job_group for row in rows} == {"search"}
    names = ("search", "search(passes=7,order=lerf)", "search~blurred", "grad")
    assert list(map(find_search, names)) == [(32, "morf"), (7, "lerf"), None, None]


def test_longer_search_changes_more_predictions():
    """Checked by removing the features; the searched network depends on a corner that no mask is told of."""
    model = Brightness().eval()
    batch = make_batch(model)
    kept = []
    for name in ("random", *(f"search(passes={length})" for length in LENGTHS), "search(passes=400)"):
        maps = importance(name, model, batch)
        kept.append([(model(remove_top(batch, maps, t)).argmax(1) == batch.targets).sum().item() for t in (0.05, 0.5)])
    random, shortest, _, longer, longest = torch.tensor(kept)
    assert (longest < random).all() and (longest < shortest).all()
    assert longer.sum() < shortest.sum()


def test_longer_search_in_lerf_order_keeps_more_predictions_with_less_to_spare():
    """Checked by removing the features ranked last: masks that keep the prediction, near to those that change it."""
    model = Brightness().eval()
    batch = make_batch(model)
    kept, spare = [], []
    for name in ("random", *(f"search(passes={length},order=lerf)" for length in (7, 40, 400))):
        maps = importance(name, model, batch)
        left = [model(remove_top(batch, -maps, t)) for t in (0.05, 0.5)]
        kept.append(sum((logits.argmax(1) == batch.targets).sum().item() for logits in left))
        spare.append(sum(logits.gather(1, batch.targets[:, None]).mean().item() for logits in left))
    assert kept[0] < kept[2] <= kept[3] == 2 * len(batch.ids) and 0 < spare[3] < spare[2] < spare[0]


def test_search_lowers_probability_where_no_mask_changes_prediction():
    """Changes that raise the probability are dropped; without this, the search would wander like a random map."""

    class Sure(Brightness):
        def forward(self, images):
            return super().forward(images) * 0.1 + images.new_tensor([0.0, 9.0])

    model = Sure().eval()
    batch = make_batch(model)
    gone = {}
    for name in ("random-smooth", "search(passes=300)"):
        removed = remove_top(batch, importance(name, model, batch), 0.05)
        gone[name] = (model(batch.images) - model(removed)).diff(dim=1).mean()
    assert gone["search(passes=300)"] > 2 * gone["random-smooth"].abs()


@pytest.mark.parametrize("order", ["morf", "lerf"])
def test_search_of_sure_network_is_that_of_less_sure_one(order):
    """Of two classes, the order of masks is that of the logits, also where the probability is rounded to 1."""

    class Network(Brightness):
        def __init__(self, factor, dtype):
            super().__init__()
            self.factor, self.dtype = factor, dtype

        def forward(self, images):
            return self.factor * (super().forward(images).to(self.dtype) + images.new_tensor([0.0, 9.0]))

    batch = make_batch(Network(1, torch.float64), images=6)
    name = f"search(passes=40,order={order})"
    images = Batch(batch.images.float(), batch.targets, batch.ids)
    maps = [
        importance(name, Network(factor, dtype).eval(), images)
        for factor, dtype in ((0.1, torch.float32), (200, torch.float32), (0.1, torch.float64))
    ]
    for found in maps[1:]:
        torch.testing.assert_close(found, maps[0], rtol=0, atol=0)


def test_search_of_network_that_ignores_images_has_same_map_for_every_network():
    """Nothing is learned, so the gain is 0 by construction; the map depends on the length, because it is untested."""
    batch = make_batch(Deaf().eval(), images=3)
    maps = {length: importance(f"search(passes={length})", Deaf().eval(), batch) for length in (2, 4)}
    shifted = nn.Sequential(Deaf().eval(), nn.Softplus()).eval()  # other logits, same order
    torch.testing.assert_close(importance("search(passes=4)", shifted, batch), maps[4], rtol=0, atol=0)
    assert not torch.equal(maps[2], maps[4])
    found = [importance("search(passes=4,order=lerf)", model, batch) for model in (Deaf().eval(), shifted)]
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_search_stops_at_changed_prediction():
    """A network whose prediction any removal changes is asked once for each mask, in LeRF order by every pass."""

    class Fragile(nn.Module):
        asked = 0

        def forward(self, images):
            self.asked += len(images)
            whole = (images != 0).flatten(1).all(1).double()
            return torch.stack([1 - whole, whole], 1)

    model = Fragile()
    batch = make_batch(model, images=4)
    for name, passes in (("search", 2), ("search(order=lerf)", 50)):
        model.asked = 0
        search_by_length(MapInput(find_estimator(name), batch, torch.zeros(2, 1, 1), model), [50])
        assert model.asked == passes * 4


@pytest.mark.parametrize("name", ["search(passes=9)", "search(passes=9,order=lerf)"])
@pytest.mark.parametrize("shape", [(30, 1, 1), (1, 1, 1), (2, 1, 1), (1, 8, 8), (3, 5, 40)])
def test_search_takes_tables_and_small_images(shape, name):
    model = nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], 3)).double().eval()
    images = torch.randn(5, *shape, generator=seeded(3), dtype=torch.float64)
    batch = Batch(images, model(images).argmax(1), torch.arange(5))
    maps = importance(name, model, batch)
    assert maps.shape == images.shape and maps.isfinite().all()
    alone = importance(name, model, batch.select_rows(slice(2, 3)))
    torch.testing.assert_close(alone, maps[2:3])
