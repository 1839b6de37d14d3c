"""From the characters of a command line to its syntax tree and its arguments.

lexer          characters to words: quoting, expansions, here-documents
grammar        words to commands: lists, pipelines, compound commands, redirections
syntax_nodes   the nodes of the tree
expansion      words as typed to arguments as a command receives them, where that is known
globs          patterns against names and folders, and braces
"""
