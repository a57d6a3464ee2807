"""What a P4 program runs on: the embedded switch, and one Control interface for whichever it is."""
