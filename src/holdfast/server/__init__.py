"""What happens in a repository, for people who watch it in a browser, and for other programs.

    server           where it listens, and how it starts and stops
    routes           routes, headers, errors
    access_control   which requests are allowed: hosts, origins, the token
    state            what the page shows, computed in one view of the ledger
    ledger_feed      the ledger as it grows, read once for all readers
    event_stream     what is sent as it happens: events, and what an agent prints
    stream_thread    all open streams, in one thread
    agent_files      what agents printed and what tasks have changed, on disk
    page_orders      the few requests that change something: analyse, decide, stop
    metrics          figures for Prometheus
    visible_text     text in which every character can be seen
    page/            the page: HTML, CSS and JavaScript as they are, without a build

It reads the ledger, so it shows the work of every process, and needs no dispatcher to run. It has
no say in who holds what: nothing here gives a lock, takes one or lets anybody pass.
"""
