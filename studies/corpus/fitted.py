"""Maps by models fitted to training labels without a network: linear, Gaussian, kernel, colours, words of patches."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from studies.corpus.corpus import blur, centre, entropy

CLASSES = 10


class Fitted:
    """Models of training images, float32 (n, 3, 64, 64), normalised, and their evidence for classes of other images."""

    def __init__(self, seen: Tensor, labels: Tensor, images: Tensor, targets: Tensor) -> None:
        self.seen, self.labels, self.images, self.targets = seen, labels, images, targets
        self.both = torch.cat([seen, seen.flip(3)])
        one = F.one_hot(labels, CLASSES).float()
        self.wanted = (one - one.mean(0)).repeat(2, 1)

    def small(self, images: Tensor, side: int) -> Tensor:
        """Return thumbnails, one after another."""
        return F.interpolate(images, side, mode="area").flatten(1)

    def large(self, maps: Tensor, side: int) -> Tensor:
        """Return maps of thumbnails at the images' size."""
        return F.interpolate(maps.view(-1, 3, side, side), 64, mode="bilinear")

    def ridge(self, side: int, penalty: float) -> Tensor:
        """Return the image times the weights of its class."""
        weights = ridge_weights(self.small(self.both, side).double(), self.wanted.double(), penalty).float()
        return self.images * self.large(weights, side)[self.targets]

    def logistic(self, side: int) -> Tensor:
        """Return the same by thirty epochs of logistic regression."""
        seen, model = self.small(self.seen, side), torch.nn.Linear(3 * side**2, CLASSES)
        torch.nn.init.zeros_(model.weight)
        torch.nn.init.zeros_(model.bias)
        steps = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=1.0)
        generator = torch.Generator().manual_seed(0)
        for _ in range(30):
            for rows in torch.randperm(len(seen), generator=generator).split(128):
                steps.zero_grad()
                F.cross_entropy(model(seen[rows]), self.labels[rows]).backward()
                steps.step()
        weights = model.weight.detach()
        return self.images * self.large(weights - weights.mean(0), side)[self.targets]

    def gaussian(self) -> Tensor:
        """Return the log odds of the class by each number, as if numbers were independent and normal."""
        parts = [self.seen[self.labels == number] for number in range(CLASSES)]
        mean, spread = (blur(torch.stack([f(part, 0) for part in parts]), 1.5) for f in (torch.mean, torch.var))
        mean_of_all, spread_of_all = (blur(f(self.seen, 0)[None], 1.5) for f in (torch.mean, torch.var))
        own = (self.images - mean[self.targets]) ** 2 / spread[self.targets] + spread[self.targets].log()
        return ((self.images - mean_of_all) ** 2 / spread_of_all + spread_of_all.log() - own) / 2

    def kernel(self, side: int) -> Tensor:
        """Return input x gradient of ridge regression with a Gaussian kernel, half the median distance wide."""
        seen, given = self.small(self.both, side), self.small(self.images, side)
        apart = torch.cdist(seen, seen)
        wide = (apart.median() / 2) ** 2
        near = torch.exp(-(apart**2) / (2 * wide))
        solved = torch.linalg.solve(near + 0.1 * torch.eye(len(near)), self.wanted)
        pull = torch.exp(-(torch.cdist(given, seen) ** 2) / (2 * wide)) * solved.T[self.targets]
        return self.images * self.large((pull @ seen - given * pull.sum(1, keepdim=True)) / wide, side)

    def colours(self) -> Tensor:
        """Return how far a number lies from the mean, times the log odds of the class by the colour, of 6 x 6 x 6."""

        def codes(images: Tensor) -> Tensor:
            level = ((images + 2) * 1.5).long().clamp(0, 5)
            return (level[:, 0] * 6 + level[:, 1]) * 6 + level[:, 2]

        seen = codes(self.seen)
        counts = [torch.bincount(seen[self.labels == number].flatten(), minlength=216) for number in range(CLASSES)]
        share = (torch.stack(counts) + 50.0) / (torch.stack(counts) + 50.0).sum(1, keepdim=True)
        odds = (share / share.mean(0)).log()[self.targets]
        return odds.gather(1, codes(self.images).flatten(1)).view(-1, 1, 64, 64) * self.images.abs()

    def words(self, side: int, count: int = 100) -> Tensor:
        """Return the deviation times the weight of a patch's word in its sixteenth of the image, by ridge."""
        generator = torch.Generator().manual_seed(0)
        some = torch.randperm(len(self.seen), generator=generator)[:1500]
        patches = F.unfold(self.seen[some], side, stride=3).transpose(1, 2).reshape(-1, 3 * side**2)
        patches = patches[torch.randperm(len(patches), generator=generator)[:60000]]
        means = patches[:count]
        for _ in range(12):
            near = torch.cdist(patches, means).argmin(1)
            sums = torch.zeros_like(means).index_add_(0, near, patches)
            means = sums / torch.bincount(near, minlength=count).clamp(min=1)[:, None]
        quarter = torch.arange(32) // 8
        cell = (quarter[:, None] * 4 + quarter).flatten() * count

        def words(images: Tensor) -> Tensor:
            padded = F.pad(images, (side // 2, side - 1 - side // 2) * 2, mode="reflect")
            parts = (F.unfold(part, side, stride=2).transpose(1, 2) for part in padded.split(100))
            return cell + torch.cat([torch.cdist(part, means).argmin(2) for part in parts])

        def counts(found: Tensor) -> Tensor:
            return torch.zeros(len(found), 16 * count).scatter_add(1, found, torch.ones(found.shape)).sqrt()

        found = words(self.images)
        weights = ridge_weights(counts(words(self.seen)), self.wanted[: len(self.seen)], 0.3)[self.targets]
        evidence = (weights.gather(1, found) / counts(found).gather(1, found)).view(-1, 1, 32, 32)
        return F.interpolate(evidence, 64, mode="bilinear") * self.images.abs()


def ridge_weights(seen: Tensor, wanted: Tensor, penalty: float) -> Tensor:
    """Return the weights of ridge regression, (outputs, numbers)."""
    seen = seen - seen.mean(0)
    spread = seen.T @ seen / len(seen) + penalty * torch.eye(seen.shape[1], dtype=seen.dtype)
    return torch.linalg.solve(spread, seen.T @ wanted / len(seen)).T


def fitted_rows(model: Fitted) -> dict[str, Callable[[], Tensor]]:
    """Return the maps by row; `linear-classifier` is the control of that name."""
    x = model.images
    return {
        "linear-classifier": lambda: model.ridge(6, 0.1) * entropy(x),
        **{f"ridge-{side}": lambda side=side: model.ridge(side, 0.1) for side in (4, 6, 8, 16)},
        "ridge-6-strong-detail": lambda: model.ridge(6, 0.3) * entropy(x),
        "ridge-6-centre-detail": lambda: model.ridge(6, 0.1) * centre(x) * entropy(x),
        "ridge-6-middle-details": lambda: model.ridge(6, 0.1) * centre(x).sqrt() * entropy(x) ** 2,
        "ridge-8-detail": lambda: model.ridge(8, 0.2) * entropy(x),
        "ridge-16-detail": lambda: model.ridge(16, 1.0) * entropy(x),
        "logistic-16": lambda: model.logistic(16),
        "logistic-16-detail": lambda: model.logistic(16) * entropy(x),
        "gaussian": model.gaussian,
        "gaussian-detail": lambda: model.gaussian() * entropy(x),
        "kernel-8": lambda: model.kernel(8),
        "kernel-8-detail": lambda: model.kernel(8) * entropy(x),
        "kernel-16-detail": lambda: model.kernel(16) * entropy(x),
        "colours": lambda: model.colours().expand_as(x),
        "colours-detail": lambda: model.colours() * entropy(x),
        "words-4-detail": lambda: model.words(4) * entropy(x),
        "ridge-6-and-words": lambda: (_even(model.ridge(6, 0.1)) + _even(model.words(4)) / 2) * entropy(x),
        "ridge-6-and-kernel": lambda: (_even(model.ridge(6, 0.1)) + _even(model.kernel(8)) / 2) * entropy(x),
    }


def _even(maps: Tensor) -> Tensor:
    return maps / maps.std()
