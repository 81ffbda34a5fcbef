import torch
from captum.attr import Saliency

NAME = "captum-instance"
DESCRIPTION = "bound to a model of its own, and no class"

estimator = Saliency(torch.nn.Linear(2, 2))
