"""The settings of a repository, and the switch that turns its gate off.

settings        the values of `holdfast.toml`, and the defaults
settings_file   how the file is read, and everything that can be wrong with it
off_switch      whether the gate is off, who turned it off, and why
seals           whether a file that controls the gate was changed behind its back
"""
