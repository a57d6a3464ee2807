"""Trials in virtual time: the real cores, trainings and P4 programs, on links that are computed."""
