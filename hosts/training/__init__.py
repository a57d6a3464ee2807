"""What is trained: workloads, the training loop, stragglers."""
