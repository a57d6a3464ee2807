"""What an experiment is: settings, trials, sweeps, and the targets that can run them."""
