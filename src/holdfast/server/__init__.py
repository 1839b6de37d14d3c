"""The server: shows a repository's work to people in a browser, and to other programs.

    server           where it listens, and how it starts and ends
    routes           requests and their answers: routes, headers, errors
    access_control   which requests are allowed: hosts, origins, token, secret
    state            the state that the page shows, computed in one view of the ledger
    ledger_feed      follows the ledger, once for all readers
    event_stream     what streams send: events, and the output of agents
    stream_thread    all open streams, in one thread
    agent_files      the output of agents and the diffs of tasks, on disk
    page_orders      the orders that people can give: analyse, decide, stop
    metrics          figures for Prometheus
    visible_text     text in which every character is visible
    page/            HTML, CSS and JavaScript, without a build

The server reads the ledger, so it shows the work of every process, and needs no dispatcher to run.
It decides nothing about locks: it grants none, releases none and lets no request pass.
"""
