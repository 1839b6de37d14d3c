"""How fast Holdfast is, beside the lock libraries in use today.

python -m bench              everything, one table and one JSON file
python -m bench.hotspots     where the time of one acquire and release goes

harness    rounds, medians, targets, child processes, the table
figures    the figures that are kept, and the tables in the documentation
locks      Holdfast and its rivals behind one small interface
cycle      one process acquires and releases one path
crowd      eight processes contend for the same path
herd       hundreds of processes open the ledger at the same moment
handover   from one process's release to the next one's grant
memory     the memory store, small and with a million grants
ledger     the embedded store, small and with a long history
sizes      calls with 100,000 grants held, beside the same calls with ten
postgres   the store on a PostgreSQL server, beside the least that this server can do
shell      the installed command, started as a shell starts it
hook       an edit through the gate's hook
lease      commands below `run --lease`, beside the same commands alone
commands   shell commands of agents, leased at the write, beside the same commands alone
specs      spec locks beside plain lock files
proof      proof ledgers beside a plain implementation of their protocol
trees      snapshots and restores beside cp and git
history    differences of snapshots, and gc
dispatch   a thousand agents on eight slots, beside the lower bound of any dispatcher
tasks      tasks that collide, on eight slots and one after the other
page       the time until the page shows its first items
"""
