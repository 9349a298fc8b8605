"""Health of a cluster and the services beside it: observed facts, and the problems that follow from them."""
