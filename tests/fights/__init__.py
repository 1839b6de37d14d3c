"""The long tests: crowds, hundreds of kills, a million steps, a day of three agents, and whole
tables of cases of which the fast suite tries a few.

    ./check fights            runs them; of the longest, a sample
    ./check long              runs all of them at full length, before a release

They run only on request and in continuous integration. The tests one folder up, which always run,
show the same things in short.
"""
