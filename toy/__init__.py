"""The linear experiment of Hooker et al. 2019, section 3 and figure 2: why ROAR retrains."""
