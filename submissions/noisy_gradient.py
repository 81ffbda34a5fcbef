"""A class with parameters, and chance from the generator: the mean squared gradient over noisy copies.

Simple class attributes are parameters: `--submission 'noisy_gradient.py(samples=50)'` is another row of the same file.
"""

import torch

NAME = "noisy-gradient"
DESCRIPTION = "mean squared gradient over noisy copies of the image"
PAPER = "https://arxiv.org/abs/1706.03825"
CLAIM = "better than the plain gradient at t = 0.9"


class NoisyGradient:
    samples = 8
    noise = 0.3

    def __call__(self, model, images, targets, generator):
        total = torch.zeros_like(images)
        for _ in range(self.samples):
            # Drawing from the generator makes roarbench pass one image at a time, each with its own generator.
            noise = torch.randn(images.shape, generator=generator)
            inputs = (images + self.noise * noise).requires_grad_()
            logits = model(inputs).gather(1, targets[:, None]).sum()
            total += torch.autograd.grad(logits, inputs)[0] ** 2
        return total / self.samples


estimate = NoisyGradient()
