"""Campaigns: trials of any experiments and seeds, on this machine or over many."""
