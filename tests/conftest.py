from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# The machine may be shared with other runs: an example that takes long is no failure.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")
