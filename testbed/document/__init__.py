"""The documentation's own tools: pages written from the code, and numbers and pictures from the runs that it keeps."""
