"""What takes long: crowds, hundreds of kills, a million steps, a day of three agents, and whole
tables of cases of which a few are tried every time.

    ./check fights            runs them, the longest ones as samples
    ./check long              runs all of them at full length, before a release

They run only when they are asked for, and in continuous integration. What each of them shows is
shown in short by the tests one folder up, which run every time.
"""
