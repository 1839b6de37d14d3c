"""`holdfast init`: hooks in other programs' settings, merged in, and taken out without a trace.

    finding    which clients are in use, and where their settings are
    command    what a hook runs, and that it works
    handlers   one hook as its client reads it: what it starts, and what its failure does
    hooks      our hooks in a client's settings
    gitpart    git's hooks, in words
    jsontext   JSON that somebody else wrote, changed in place
    files      reading, replacing and keeping files
    record     what was written, and what was there before
    plan       all of it, first as a plan and then for real

None of this is on the way of a hook.
"""
