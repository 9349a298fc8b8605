"""Source of `format("ottla")`, from options to columns."""
