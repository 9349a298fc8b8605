"""What the cluster agrees on: brokers, topics, assignments, leaders, configs."""
