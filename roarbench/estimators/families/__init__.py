"""The estimators and controls; each file declares one family in `ESTIMATORS`.

`roarbench.estimators.catalogue` collects every file of this folder, so a new file needs no registration. Every start of
the program imports these files, and importing torch takes a second, so these files must import torch and captum from
`roarbench.estimators.lazy_torch`.
"""
