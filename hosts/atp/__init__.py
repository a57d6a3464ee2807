"""ATP (NSDI '21): worker, parameter server, and what they have in common."""
