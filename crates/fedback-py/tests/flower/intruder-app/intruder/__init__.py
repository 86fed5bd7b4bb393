"""The intruder."""
