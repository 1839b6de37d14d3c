"""The terminal: its width, its keys, and tables that fit it.

sheet        what lines and tables are written on: width, colour, length
tables       columns that fit the terminal
pager        the part of a long text that fits the screen
keystrokes   keys as a terminal sends them
screen       a terminal that a program has for itself
"""
