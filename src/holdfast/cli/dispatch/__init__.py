"""plan, dispatch, decide, gaps: lists of tasks, and screens.

dispatch_command   dispatch, decide and gaps, for both kinds of lists
plan_command       plan
task_dispatch      dispatch, for tasks
task_deciding      decide, for tasks
task_files         which files are lists of tasks, and which are manifests of screens
task_report        what a dispatcher prints about its tasks
task_waits         what tasks wait for outside their list
task_left          lists whose dispatcher is gone, with tasks left
task_gaps          files that tasks wanted to write and had not declared
task_words         the events of tasks, as sentences
"""
