"""One short file per experiment; the runner, the results, the plots and the command line."""
