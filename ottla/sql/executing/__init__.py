"""Execution of parsed statements; `session` dispatches to these modules."""
