"""What flows where, from all that knows a part of it: Connect, the SQL server, pipelines, mirrors, groups."""
