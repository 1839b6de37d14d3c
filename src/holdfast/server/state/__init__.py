"""The state that the page shows, computed in one view of the ledger.

board           grants, items, workflows, and why each item waits
ledger_facts    the facts about work and locks in one view of the ledger
wait_chains     chains of waiting: A waits for B, which waits for C
work_progress   how far the work is, and when it will be done
task_board      the tasks of all lists, in the order in which they are shown
controllers     the controllers, likewise
queue_order     the rows of the queue, likewise
tally           every count that the page, `/metrics` and `top` show
event_history   history: spans of grants, contention by file, gaps
"""
