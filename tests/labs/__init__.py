"""Tests of the labs: solutions, starters, and wrong solutions that a task must catch."""
