"""Collectives over TCP: ring, halving-doubling, parameter servers."""
