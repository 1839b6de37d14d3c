"""What takes long: crowds, hundreds of kills, a million steps, a day of three agents, and whole
tables of cases of which a few are tried every time.

    ./check fights            runs them, with everything beside it that was built for patience

They run only when they are asked for, and in continuous integration. What each of them shows is
shown in short by the tests one folder up, which run every time.
"""
