from captum.attr import InputXGradient

NAME = "good-captum-class"
DESCRIPTION = "a class by captum's convention, as it is"

estimator = InputXGradient
