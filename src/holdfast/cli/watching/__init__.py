"""Commands that show the ledger live, in a terminal or a browser.

top              top
top_parts        its tables of locks, waiting requests and failures
top_tasks        its tables of tasks
serve_command    serve
outage           what is said while the server of a ledger is away
"""
