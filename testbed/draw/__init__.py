"""Plots and curves."""
