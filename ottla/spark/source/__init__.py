"""Reading: the data source of `format("ottla")`, from options to columns."""
