"""ROAR in sixty lines: remove the pixels that an explanation ranks first, retrain, and see how far accuracy falls.

Accuracy falls further than with a random ranking if the removed pixels carry evidence (Hooker et al. 2019).
`python examples/roar.py` prints both curves for handwritten digits, in about a minute.
"""

from pathlib import Path

import pandas
import torch
from torch import nn

DIGITS = Path(__file__).parents[1] / "roarbench/datasets/bundled/digits/table.parquet"
LEVELS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)  # fractions of the pixels that are removed
SEEDS = (1, 2, 3)  # one retrained network each


def load_digits():
    """Return training images (n, 1, 8, 8) in [0, 1] and their labels (n,), then test images and labels."""
    table = pandas.read_parquet(DIGITS)
    labels = torch.tensor(table.pop("digit").to_numpy()).long()
    images = torch.tensor(table.to_numpy()).view(-1, 1, 8, 8) / 16
    return images[::2], labels[::2], images[1::2], labels[1::2]


def train(images, labels, seed, epochs=30):
    """Train a small network from random weights."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 6 * 6, 10))
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimiser.step()
        schedule.step()
    return network.eval()


def compute_gradient(network, images):
    """Explain: how much does the logit of the predicted class grow with each pixel? (n, 1, 8, 8)."""
    inputs = images.clone().requires_grad_()
    network(inputs).amax(dim=1).sum().backward()
    return inputs.grad


def draw_random(network, images):
    """Explain nothing: the control that every estimator has to beat."""
    return torch.rand(images.shape)


def rank(maps):
    """Return the pixels of each image, most important first, (n, 64)."""
    return maps.flatten(1).argsort(dim=1, descending=True)


def remove(images, ranking, t, fill):
    """Replace the fraction t of each image's pixels that rank first."""
    removed = ranking[:, : round(t * ranking.shape[1])]
    return images.flatten(1).scatter(1, removed, fill).view_as(images)


def compute_accuracy(network, images, labels):
    """Return the share of images that a network classifies correctly."""
    return (network(images).argmax(dim=1) == labels).double().mean().item()


def run_roar(explain):
    """Return accuracy by level: training and test images lose pixels, and a new network learns from the rest."""
    images, labels, test_images, test_labels = load_digits()
    explained, fill = train(images, labels, seed=0), images.mean().item()
    ranking, test_ranking = rank(explain(explained, images)), rank(explain(explained, test_images))
    curve = []
    for t in LEVELS:
        degraded, test = remove(images, ranking, t, fill), remove(test_images, test_ranking, t, fill)
        accuracies = [compute_accuracy(train(degraded, labels, seed), test, test_labels) for seed in SEEDS]
        curve.append(sum(accuracies) / len(SEEDS))
    return curve


def compute_gain(random, curve):
    """Return the area between both curves, in points of accuracy; above 0, the ranking is better than a random one."""
    differences = torch.tensor(random) - torch.tensor(curve)
    return 100 * torch.trapezoid(differences, torch.tensor(LEVELS)).item() / LEVELS[-1]


if __name__ == "__main__":
    random, gradient = run_roar(draw_random), run_roar(compute_gradient)
    print("removed  random  gradient")
    for t, *accuracies in zip(LEVELS, random, gradient, strict=True):
        print(f"{t:7.0%} {accuracies[0]:7.1%} {accuracies[1]:9.1%}")
    print(f"ROAR gain of the gradient: {compute_gain(random, gradient):+.1f} points")
    # below 0, because the places of the removed pixels reveal the class: ROAR's best known flaw (docs/validity.md)
