"""The estimators and controls; each file declares one family in `ESTIMATORS`.

`roarbench.estimators.catalogue` collects every file of this folder, so a new file needs no registration. Every start of
the program reads this folder, and importing torch takes a second, so files import torch and captum inside functions.
"""
