"""The data flow graph, collected from Connect, the SQL server, pipelines, mirrors and groups."""
