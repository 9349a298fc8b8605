"""Transactions, kept in `__transaction_state`."""
