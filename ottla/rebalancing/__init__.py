"""Plans that even out what brokers carry. Pure: it knows no wire and no clock."""
