"""ATP packet by packet (NSDI '21): aggregators that jobs share, parameter servers, and windows."""
