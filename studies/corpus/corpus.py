"""Maps that ask no network, or one whose weights are shuffled: none of them may be called better than every control.

One submission; its parameter says which map: `--submission 'studies/corpus/corpus.py(KIND=entropy)'`.
"""

import copy
import math

import torch
from torch.nn import functional as F

NAME = "corpus"
DESCRIPTION = "a map that asks no network, or one whose weights are shuffled; KIND says which"


def blur(x, sigma):
    """Blur each channel by a Gaussian of this many pixels, mirrored about the outermost ones."""
    radius = max(1, round(3 * sigma))
    kernel = torch.exp(-0.5 * (torch.arange(-radius, radius + 1) / sigma) ** 2)
    kernel = kernel / kernel.sum()
    n, c, h, w = x.shape
    flat = F.pad(x.reshape(n * c, 1, h, w), (radius, radius, radius, radius), mode="reflect")
    return F.conv2d(F.conv2d(flat, kernel.view(1, 1, -1, 1)), kernel.view(1, 1, 1, -1)).view(n, c, h, w)


def filtered(x, kernel):
    n, c, h, w = x.shape
    return F.conv2d(F.pad(x.reshape(n * c, 1, h, w), (1, 1, 1, 1), mode="reflect"), kernel[None, None]).view(n, c, h, w)


def grey(x):
    return x.mean(1, keepdim=True).expand_as(x)


def variance(x, sigma=1.5):
    return (blur(x**2, sigma) - blur(x, sigma) ** 2).clamp(min=0)


def entropy(x):
    """Return the entropy of 8 grey levels in a window around each pixel."""
    levels = F.one_hot(((grey(x)[:, 0] + 2) * 2).long().clamp(0, 7), 8).permute(0, 3, 1, 2).float()
    share = blur(levels, 2).clamp(min=1e-6)
    return -(share * share.log()).sum(1, keepdim=True).expand_as(x)


def rarity(x):
    """Return minus the logarithm of how often an image has a pixel's colour, of 4 x 4 x 4."""
    codes = ((x + 2) * 1).long().clamp(0, 3)
    cells = (codes[:, 0] * 16 + codes[:, 1] * 4 + codes[:, 2]).flatten(1)
    counts = torch.zeros(len(x), 64).scatter_add(1, cells, torch.ones(cells.shape))
    return -counts.gather(1, cells).log().view(len(x), 1, *x.shape[2:]).expand_as(x)


def cosines(x, keep):
    """Return an image of those frequencies (down, across) of which `keep` is true, by the discrete cosine transform."""
    side = x.shape[-1]
    at = torch.arange(side)
    basis = torch.cos(math.pi / side * (at[None] + 0.5) * at[:, None]) * math.sqrt(2 / side)
    basis[0] /= math.sqrt(2)
    wanted = keep(at[:, None] + at[None]).float()
    return basis.T @ ((basis @ x @ basis.T) * wanted) @ basis


def jpeg(x):
    """Return what coarse steps in blocks of 8 x 8 lose."""
    blocks = F.unfold(x, 8, stride=8).view(len(x), x.shape[1], 8, 8, -1).movedim(-1, 1).flatten(0, 1)
    at = torch.arange(8)
    basis = torch.cos(math.pi / 8 * (at[None] + 0.5) * at[:, None]) * 0.5
    basis[0] /= math.sqrt(2)
    steps = 0.2 * (1 + at[:, None] + at[None])
    lost = blocks - basis.T @ ((basis @ blocks @ basis.T / steps).round() * steps) @ basis
    back = lost.view(len(x), -1, x.shape[1], 8, 8).movedim(1, -1).flatten(1, 3)
    return F.fold(back, x.shape[2:], 8, stride=8)


def low_rank(x, rank):
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    return (u[..., :rank] * s[..., None, :rank]) @ v[..., :rank, :]


def spread(x):
    """Return how far a pixel's channels lie apart, in each of its channels."""
    return (x.amax(1, keepdim=True) - x.amin(1, keepdim=True)).expand_as(x)


def blocks(x, side=8):
    return F.interpolate(F.avg_pool2d(x, side), scale_factor=side)


def centre(x):
    at = torch.linspace(-2, 2, x.shape[-1]) ** 2
    return torch.exp(-(at[:, None] + at[None]) / 2).expand_as(x)


def foreground(x):
    """Return how far a pixel's surroundings lie from the mean colour of the border."""
    inside = torch.zeros(x.shape[2:], dtype=torch.bool)
    inside[4:-4, 4:-4] = True
    border = x[:, :, ~inside].mean(2)[:, :, None, None]
    return blur((x - border).square().sum(1, keepdim=True).sqrt().expand_as(x), 3)


def class_means(x, targets):
    """Return for each image the mean image of its class minus that of all, of the images at hand."""
    return torch.stack([x[targets == target].mean(0) for target in targets]) - x.mean(0)


def sobel(x):
    across = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    return torch.hypot(filtered(x, across), filtered(x, across.T))


def shuffled(model):
    """Return the network with the entries of every parameter permuted."""
    model = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        order = torch.randperm(parameter.numel(), generator=generator)
        parameter.data = parameter.data.flatten()[order].view(parameter.shape)
    return model


def gradient(model, x, targets):
    x = x.detach().clone().requires_grad_()
    logits = model(x).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, x)[0]


WITHOUT = {
    "bright": lambda x: x,
    "dark": lambda x: -x,
    "squared": lambda x: x**2,
    "image-deviation": lambda x: (x - x.mean((2, 3), keepdim=True)).abs(),
    "grey-deviation": lambda x: grey(x).abs(),
    "largest-deviation": lambda x: x.abs().amax(1, keepdim=True).expand_as(x),
    "low-1": lambda x: blur(x, 1).abs(),
    "low-2": lambda x: blur(x, 2).abs(),
    "low-4": lambda x: blur(x, 4).abs(),
    "grey-low-2": lambda x: blur(grey(x), 2).abs(),
    "residual": lambda x: (x - blur(x, 1)).abs(),
    "band": lambda x: (blur(x, 1) - blur(x, 3)).abs(),
    "wide-band": lambda x: (blur(x, 1) - blur(x, 6)).abs(),
    "variance": variance,
    "entropy": entropy,
    "rarity": rarity,
    "laplace": lambda x: filtered(x, torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]])).abs(),
    "saturation": spread,
    "colour": lambda x: (x - grey(x)).abs(),
    "cosines-low": lambda x: cosines(x, lambda f: f < 8).abs(),
    "cosines-middle": lambda x: cosines(x, lambda f: (f >= 8) & (f < 24)).abs(),
    "cosines-high": lambda x: cosines(x, lambda f: f >= 24).abs(),
    "jpeg": lambda x: jpeg(x).abs(),
    "rank-2": lambda x: low_rank(x, 2).abs(),
    "rank-2-residual": lambda x: (x - low_rank(x, 2)).abs(),
    "blocks": lambda x: blocks(x).abs() + 1e-3 * x.abs(),
    "block-variance": lambda x: blocks(x**2) - blocks(x) ** 2 + 1e-3 * x.abs(),
    "agreement": lambda x: x * blur(x, 2),
    "sharpness": lambda x: x * (x - blur(x, 2)),
    "deviation-contrast": lambda x: x.abs() * (x - blur(x, 1.5)).abs(),
    "deviation-sobel": lambda x: x.abs() * sobel(x),
    "deviation-entropy": lambda x: x.abs() * entropy(x),
    "deviation-rarity": lambda x: x.abs() * rarity(x).clamp(min=-8).exp(),
    "deviation-centre": lambda x: x.abs() * centre(x),
    "low-centre": lambda x: blur(x, 2).abs() * centre(x),
    "low-saturation": lambda x: blur(x, 2).abs() * spread(x),
    "saturation-blurred": lambda x: blur(spread(x), 2),
    "saturation-centre": lambda x: spread(x) * centre(x),
    "deviation-saturation": lambda x: x.abs() * spread(x),
    "deviation-saturation-centre": lambda x: x.abs() * spread(x) * centre(x),
    "low-saturation-centre": lambda x: blur(x, 2).abs() * spread(x) * centre(x),
    "saturation-variance-centre": lambda x: spread(x) * variance(x, 3).sqrt() * centre(x),
    "image-deviation-centre": lambda x: (x - x.mean((2, 3), keepdim=True)).abs() * centre(x),
    "border-colour": lambda x: (
        x - (x.mean((2, 3), keepdim=True) - 0.25 * (x * centre(x)).mean((2, 3), keepdim=True))
    ).abs(),
    "bright-centre": lambda x: (x + 2.5) * centre(x),
    "dark-centre": lambda x: (2.5 - x) * centre(x),
    "low-saturation-entropy": lambda x: blur(x, 2).abs() * spread(x) * entropy(x),
    "deviation-saturation-entropy": lambda x: x.abs() * spread(x) * entropy(x),
    "saturation-entropy": lambda x: spread(x) * entropy(x),
    "low-entropy-centre": lambda x: blur(x, 2).abs() * entropy(x) * centre(x),
    "low-saturation-entropy-centre": lambda x: blur(x, 2).abs() * spread(x) * entropy(x) * centre(x),
    "low-colour": lambda x: blur(x, 2).abs() * (x - grey(x)).abs(),
    "coloured": lambda x: blur((x - grey(x)).abs(), 2) * blur(x, 2).abs() * entropy(x),
    "low-block-variance": lambda x: blur(x, 2).abs() * blur(variance(x, 3), 2).sqrt(),
    "low-saturation-variance": lambda x: blur(x, 2).abs() * spread(x) * blur(variance(x, 3), 2).sqrt(),
    "signed-colour": lambda x: (x - grey(x)) * blur(x, 2).sign(),
    "signed-colour-own": lambda x: (x - grey(x)) * x.sign(),
    "signed-colour-grey": lambda x: (x - grey(x)) * blur(grey(x), 2).sign(),
    "signed-colour-wide": lambda x: (x - grey(x)) * blur(x, 4).sign(),
    "colour-product": lambda x: (x - grey(x)) * blur(x, 2),
    "colour-entropy": lambda x: (x - grey(x)) * blur(x, 2).sign() * entropy(x),
    "colour-centre": lambda x: (x - grey(x)) * blur(x, 2).sign() * centre(x),
    "colour-blurred": lambda x: blur(x - grey(x), 1) * blur(x, 2).sign(),
    "squares-apart": lambda x: x**2 - grey(x) ** 2,
    "own-low-1": lambda x: (blur(x, 1) - grey(blur(x, 1))) * blur(x, 1).sign(),
    "own-centre": lambda x: (x - grey(x)) * x.sign() * centre(x),
    "own-product": lambda x: (x - grey(x)) * x,
    "own-entropy": lambda x: (x - grey(x)) * x.sign() * entropy(x),
    "own-centre-entropy": lambda x: (x - grey(x)) * x.sign() * centre(x) * entropy(x),
    "product-centre": lambda x: (x - grey(x)) * x * centre(x),
    "product-entropy": lambda x: (x - grey(x)) * x * entropy(x),
    "product-centre-entropy": lambda x: (x - grey(x)) * x * centre(x) * entropy(x),
    "product-foreground": lambda x: (x - grey(x)) * x * centre(x) * entropy(x) * foreground(x),
    "own-foreground": lambda x: (x - grey(x)) * x.sign() * foreground(x),
    "own-sharp": lambda x: (x - grey(x)) * x.sign() + 0.5 * x.sign() * (x - blur(x, 2)),
}
TEMPLATES = {  # by the image and, for each, the mean image of its class minus that of all
    "class-mean": lambda x, mean: x * mean,
    "class-mean-colour": lambda x, mean: x * mean.mean((2, 3), keepdim=True),
    "class-mean-low": lambda x, mean: x * blur(mean, 2),
    "class-mean-centre": lambda x, mean: x * mean * centre(x),
    "class-mean-entropy": lambda x, mean: x * mean * entropy(x),
    "class-mean-centre-entropy": lambda x, mean: x * mean * centre(x) * entropy(x),
    "class-mean-low-centre-entropy": lambda x, mean: x * blur(mean, 2) * centre(x) * entropy(x),
}
SHUFFLED = {
    "shuffled-ixg": lambda model, x, y: x * gradient(model, x, y),
    "shuffled-ixg-abs": lambda model, x, y: (x * gradient(model, x, y)).abs(),
    "shuffled-grad-sq": lambda model, x, y: gradient(model, x, y) ** 2,
    "shuffled-ig": lambda model, x, y: x * sum(gradient(model, x * (i + 1) / 8, y) for i in range(8)),
    "shuffled-ixg-low": lambda model, x, y: blur(x * gradient(model, x, y), 2).abs(),
    "shuffled-grad-low": lambda model, x, y: blur(x, 2).abs() * gradient(model, x, y).abs(),
}


class Corpus:
    """Makes the map that `KIND` names."""

    KIND = "entropy"

    def __call__(self, model, images, targets, generator):
        if self.KIND in SHUFFLED:
            return SHUFFLED[self.KIND](shuffled(model), images, targets)
        if self.KIND in TEMPLATES:
            return TEMPLATES[self.KIND](images, class_means(images, targets)).contiguous()
        return WITHOUT[self.KIND](images).contiguous()


estimate = Corpus()
