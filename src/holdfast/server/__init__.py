"""What happens in a repository, for people who watch it in a browser, and for other programs.

    server      the server: where it listens, and how it begins and ends
    web         what is asked for: routes, headers, errors
    guarding    who may ask: hosts, origins, the token
    moment      what one view of the ledger says
    board       how things stand: grants, items, workflows, and why each one waits
    tally       what is counted, and what has failed
    progress    how far the work is, when it will be done, and whether its dispatcher lives
    tasks       the tasks of all lists
    chains      who waits for whom
    visible     text in which every character can be seen
    history     what has happened: spans of grants, contention by file, gaps
    feed        the ledger as it grows, read once for all who watch
    streaming   what is sent as it happens: events, and what an agent prints
    streams     all open streams, in one thread
    output      what the agents printed and what tasks have changed, on disk
    orders      the few things that can be asked for: analyse, decide, stop
    metrics     figures for Prometheus
    page/       the page: HTML, CSS and JavaScript as they are, without a build

It reads the ledger, so it shows the work of every process, and needs no dispatcher to run. It has
no say in who holds what: nothing here gives a lock, takes one or lets anybody pass.
"""
