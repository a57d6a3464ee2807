"""What is kept of runs: folders, metrics, steps, statistics, and which code it was."""
