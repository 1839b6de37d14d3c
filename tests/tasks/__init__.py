"""Plain lists of tasks."""
