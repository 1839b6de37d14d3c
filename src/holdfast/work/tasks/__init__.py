"""A plain list of tasks, done in parallel, each whole or not at all.

A task is a name and a prompt. Its files need not be known in advance: its agent runs below a
broker, which leases each file at the first write, keeps the lease until the task ends, and copies
the file before that write. A task that fails leaves every file as it was.

lists               lists as people write them
dispatcher          works through a list: its tasks, a scheduler, and the launchers of its agents
list_start          what is recorded when a list is started, and what is refused before that
forgetting          makes tasks be done again by a later run
task_flow           the tasks of one list on a scheduler
task_states         the states of a task, and every transition between them
task_records        a task in the ledger, and its list
review_decisions    a person's decisions on tasks in review, in the ledger
readiness           which tasks can start, and which no longer can
exclusion           which tasks of a list are known to exclude each other
task_agent          which client is installed, and how it is called without a person
attempt             one attempt at a task: the agent, the check, the rounds
task_changes        what a task has changed, as a patch
landing             how the changes of a task become one commit
list_progress       how far a list is: counts, elapsed time, a forecast, who waits for whom
undeclared_writes   refused writes to files that a task does not declare

How a failed attempt is undone is in `holdfast.manager.files.keepsakes`, for screens and tasks.

A task is identified by its list and its name. Finished tasks are recorded in the ledger, and a
later run of the same list does not do them again.
"""
