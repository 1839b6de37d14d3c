"""The state that the page shows, computed in one view of the ledger.

board           who holds what, what is in progress, and why each item waits
ledger_facts    what one view of the ledger says about work and locks
wait_chains     who waits for whom: A waits for B, which waits for C
work_progress   how far the work is, and when it will be done
task_board      the tasks of all lists
controllers     the controllers of a manifest, and how far each is
queue_order     the queue in the order in which it is shown
tally           every count that the page, `/metrics` and `top` show
event_history   what has happened: spans of grants, contention by file, gaps
"""
