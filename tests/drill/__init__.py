"""Runs that are killed, damaged, starved of disk or badly served end with the rows of an undisturbed one."""
