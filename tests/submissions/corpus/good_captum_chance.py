from captum.attr import NoiseTunnel, Saliency

NAME = "good-captum-chance"
DESCRIPTION = "chance that is torch's global one, by captum's convention"


class estimator(NoiseTunnel):
    def __init__(self, model):
        super().__init__(Saliency(model))

    def attribute(self, inputs, target):
        return super().attribute(inputs, nt_samples=3, stdevs=0.3, target=target)
