"""What a P4 program runs on: the embedded switch, and one Control interface for whichever it is.

Its modules import each other relatively: in a checkout, `python -m switches.embedded` and `import switches.embedded.build`
work, too.
"""
