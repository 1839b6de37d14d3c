"""The two restrictions that the kernel enforces, and what they leave open.

landlock      the system calls, what this kernel can do, and a ruleset
open_places   the files and folders to open: found, checked, and created where missing
complement    the other way round, below a broker: everything is opened except some folders
seccomp       a filter that reports some system calls, and its listener
"""
