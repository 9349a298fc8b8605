"""Transactions, stored in `__transaction_state`."""
