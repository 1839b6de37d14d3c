"""Control files below a broker: never opened for writing, checked before a change is published.

control_writes   writes to a control file go to a copy, which is checked and published
git_settings     which settings of git make it execute a program or include other settings
git_includes     files in the work tree that git's settings include
"""
