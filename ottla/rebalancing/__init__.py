"""Plans for balancing the load of brokers. Pure: no network and no clock."""
