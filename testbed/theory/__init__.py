"""The least time that an all-reduce can take."""
