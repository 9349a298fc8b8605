"""User functions written in Python."""

from ottla.sql.user_functions.catalogue import UserFunctions
from ottla.sql.user_functions.declaring import UserFunction, udaf, udf, udtf

__all__ = ["UserFunction", "UserFunctions", "udaf", "udf", "udtf"]
