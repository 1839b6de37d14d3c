"""The store on a PostgreSQL server: any number of hosts, one database for many repositories.

    server_store      the store
    server_session    one connection: its deadlines, its transactions, and a lost answer
    server_view       the state of the ledger, for reading
    server_rows       its tables, for writing
    server_sections   snapshots for reading, and fenced sections
    server_mover      its ledger, as the source or target of a move
    server_check      what `holdfast store check` says about a server
    server_errors     what the server's and the network's errors mean for a person
    certificate_check  what is wrong with a server's certificate
    server_forks      what a forked child must not inherit
    server_waits      the waits of one process
    listener          how a waiting process is woken
    migrations        the tables, made once and brought up to date
    statements        the SQL of the room, read from the folder `sql`

Nothing here is imported unless a ledger is on a server, and psycopg is imported nowhere else.
"""
