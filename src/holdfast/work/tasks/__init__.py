"""A plain list of tasks, done in parallel, each whole or not at all.

A task is a name and a prompt. Which files it will touch need not be known: its agent runs below a
broker, each file is leased at the first write and kept until the task ends, and before that write
the file is copied. A task that fails leaves every file as it was.

    task         one task, as its list says it
    states       the states of a task, and every transition between them
    records      a task in the ledger, and the list that it belongs to
    reading      lists: TOML, a Markdown checklist, or the command line
    fields       what each key of a task may be
    lines        in which line of a TOML list a key is set
    naming       the names of tasks, and which of them are the same
    order        the order by what tasks come after
    readiness    which tasks can begin, and which cannot any more
    checklist    the items of a Markdown file, and how one is ticked
    exclusion    which tasks of a list are known to exclude each other
    agent        which client is installed, and how it is called without a person
    dispatcher   what does a list: its tasks, a scheduler, and the launchers in which agents run
    beginning    what is recorded when a list is begun, and what is refused before that
    forgetting   tasks that are to be done anew by a later run
    flow         the tasks of one list on a scheduler
    attempt      one attempt at a task: the agent, the check, the rounds
    progress     how far a list is: counts, elapsed time, a forecast, who waits for whom
    undeclared   what a task that declares its writes tried to write besides
    decisions    what a person has decided on a task in review, in the ledger
    landing      how the changes of a task become one commit
    changes      what a task has changed, as a patch

How an attempt that failed is undone is in `holdfast.manager.files.keepsakes`, for screens and
tasks.

A task is known by its list and its name. What is done is recorded in the ledger and is not done
again by a later run of the same list.
"""
