"""Parser from scripts to statements. It needs neither Spark nor a broker."""
