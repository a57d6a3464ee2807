"""What runs experiments, in rooms of one purpose each."""
