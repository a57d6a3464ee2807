"""Mistakes that the tests must notice, put into a copy of the code one at a time: `python -m tests.mutants`.

Most of them are in P4 and in C, where mutmut and cosmic-ray, which rewrite Python's syntax tree, cannot put any; and a
mistake that a maintainer could make reads differently from a swapped operator. So a mutant is a piece of text and what
replaces it.
"""
