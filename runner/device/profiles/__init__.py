"""The profiles that come with the package, one YAML file each; `runner.device.simulated.profile` describes every key."""
