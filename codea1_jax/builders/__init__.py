"""From a configuration to what a run is made of; `training` puts all of it together, and nothing else does."""
