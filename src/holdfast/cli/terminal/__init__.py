"""The terminal: its width, its keys, and tables that fit it.

sheet        the width, colours and length for lines and tables
tables       columns that fit the terminal
pager        the visible part of a long text
keystrokes   keys as a terminal sends them
screen       a terminal in full-screen mode
"""
