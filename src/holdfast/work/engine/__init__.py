"""The engine: work items, the queue, the slots, and the loop that owns them.

work_items        an item: what to do, what it needs, its state; the order of a queue
transitions       a table of transitions, as items and tasks have one
item_store        items in the ledger: queued, dispatched together with their locks, ended once
scheduler         what other code calls
scheduler_loop    the one thread that owns the queue and the slots; it never polls
loop_messages     the messages that the loop receives
mailbox           one queue of messages, handled by one thread at a time
ready_queue       which items are worth another try after something was released
deadlines         what is due when, by the ledger's clock
callbacks         what an item runs, what it may answer, and who holds its locks
item_steps        runs a callback and what follows from its answer, outside the loop
thread_pool       the threads for those steps
ledger_follower   a thread that reports new events of the ledger
orphan_cleanup    after a dead launcher: kills what it left and restores its files
stop_requests     asks the dispatchers of a repository to stop
"""
