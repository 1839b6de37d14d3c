"""Lists of tasks, as people write them.

list_reader   a TOML file, a Markdown checklist, or prompts from the command line
task_fields   what each key of a task may be
toml_lines    the line of a TOML file in which a key is set
checklist     the items of a Markdown checklist, and how one is ticked
task_names    the name of a task
task          one task, as its list states it
task_order    the order of tasks by what they come after
"""
