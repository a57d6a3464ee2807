"""The schemes: a file for each, and in it the one object that says all of it."""
