"""An ordinary day: three agents at work in one repository, and an independent record of it.

`repository.py` has the place and the hours, `agent.py` what an agent does there, `client.py` the
process that it runs in, and `record.py` which agent has what, without reading any ledger.
"""
