"""How quick Holdfast is, beside the lock libraries that people use today.

python -m bench              everything, one table and one JSON file
python -m bench.hotspots     where the time of one acquire and release goes

harness    rounds, medians, targets, child processes, the table
figures    the figures that are kept, and the tables in the documentation
locks      Holdfast and its rivals behind one small face
cycle      one process takes and gives back one path
crowd      eight processes want the same path
handover   from one process's release to the next one's grant
memory     the memory store, small and with a million grants
ledger     the embedded store, small and with a long history
shell      the installed command, started like a shell starts it
lease      commands below `run --lease`, beside the same commands alone
commands   shell commands of agents, leased at the write, beside the same commands alone
trees      snapshots and restores beside cp and git
dispatch   a thousand agents on eight slots, beside what no dispatcher can beat
"""
