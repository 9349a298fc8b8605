"""How columns of a table follow the schemas and values of its topic; pure, except for the registry."""
