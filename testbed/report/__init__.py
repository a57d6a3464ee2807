"""Pages and tables of runs, and the comparison of two."""
