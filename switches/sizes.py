"""Sizes that all programs share, as p4/include/sizes.p4 has them; a test holds the two together."""

MAX_JOBS = 16
MAX_WORKERS = 32  # of one job below one switch: the bits of a bitmap
MAX_PORTS = 64  # of a switch
