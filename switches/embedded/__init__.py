"""The embedded switch: P4_16 for v1model, compiled to C, run on real interfaces with simple_switch's behaviour."""
