"""An ordinary day: three agents at work in one repository, and somebody who keeps a record of it.

`repository.py` is the place and the hours, `agent.py` what an agent does there, `client.py` the
process that it runs in, `record.py` who has what without asking any ledger.
"""
